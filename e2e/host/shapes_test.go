package host

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// shapeImages are what the shapes name and no test can pull.
var shapeImages = regexp.MustCompile(`"(busybox:1.36|example.org/[^"]*|debian:bookworm-slim|postgres:17)"`)

// shape is a job that was written for another driver, with an image that is here
// and changed by pairs of old and new text.
func shape(t *testing.T, name, image string, changes ...string) string {
	t.Helper()
	b, err := os.ReadFile(job(t, "internal", "jobfile", "testdata", "shapes", name+".nomad.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".nomad.hcl")
	text := strings.NewReplacer(changes...).Replace(shapeImages.ReplaceAllString(string(b), `"`+image+`"`))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestShapesRun: the shapes that one machine can run do what they are for.
func TestShapesRun(t *testing.T) {
	image := testenv.Image(t)
	t.Run("07 spellings", func(t *testing.T) {
		// How much memory may be locked is the node's matter.
		r := run(t, shape(t, "07-hcl-spelling-matrix", image, "port_map {\n          db = 6379\n        }", `ports = ["db"]`, `memlock = "-1"`, `memlock = "65536"`, `ports   = ["db"]`, ""))
		r.wants(t, "stderr", r.stderr, "block-forms * Terminated: exit code 0", "map-forms   * Terminated: exit code 0", "old-forms   * Terminated: exit code 0")
		if r.code != 0 {
			t.Errorf("exit code %d", r.code)
		}
	})
	t.Run("10 sandbox", func(t *testing.T) {
		r := run(t, "-exec", "sandbox", shape(t, "10-agent-sandbox-exec", image), "--", "sh", "-c", "touch made && pwd; exit 7")
		r.wants(t, "stdout", r.stdout, "/workspace")
		if r.code != 7 {
			t.Errorf("exit code %d, want 7\n%s", r.code, r.stderr)
		}
	})
	t.Run("10 archive", func(t *testing.T) {
		r := piped(t, archive(t), "run", "-plugin-config", pluginConfig(t), "-i", "-exec", "sandbox", shape(t, "10-agent-sandbox-exec", image), "--", "sh", "-c", "tar x && cat in/file")
		r.wants(t, "stdout", r.stdout, "sandbox exec | hello")
		if r.code != 0 {
			t.Errorf("exit code %d\n%s", r.code, r.stderr)
		}
	})
	t.Run("12 database", func(t *testing.T) { testenv.EachClass(t, database) })
	t.Run("13 identity", func(t *testing.T) { testenv.EachClassAtOnce(t, identity) })
	t.Run("15 lifecycle", func(t *testing.T) {
		r := run(t, shape(t, "15-init-script-lifecycle", image))
		r.wants(t, "stdout", r.stdout, "nameserver 10.", "mode = first")
		r.wants(t, "stderr", r.stderr, "dns_servers has no effect", "cleanup * Terminated: exit code 0")
		if r.code != 0 {
			t.Errorf("exit code %d", r.code)
		}
	})
}

// archive is a tar archive with the file in/file.
func archive(t *testing.T) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "in/file", Mode: 0o644, Size: 6})
	_, writing := io.WriteString(w, "hello\n")
	if err := errors.Join(err, writing, w.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestShapesRefused: what the driver refuses is all in one message and not tried
// again; the rest of a job may have run before it.
func TestShapesRefused(t *testing.T) {
	image := testenv.Image(t)
	for name, words := range map[string][]string{
		"03-api-drain-canary":    {`network_mode = "host"`, "egress.allow"},
		"05-periodic-batch":      {`volumes = "/srv/db:/data:ro"`, "volumes.paths", "volume_mount"},
		"07-hcl-spelling-matrix": {"port_map: where the task listens is written on the group's port"},
		"08-devices-caps":        {"6 reasons", "privileged = true", "/dev/ttyACM0", "/dev/video0", "NET_RAW", "NET_ADMIN", "apparmor=unconfined"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, shape(t, name, image))
			r.wants(t, "stderr", r.stderr, append(words, "is refused", "the error is permanent")...)
			if r.code != 1 {
				t.Errorf("exit code %d, want 1", r.code)
			}
		})
	}
}
