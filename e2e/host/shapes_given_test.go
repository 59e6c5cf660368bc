package host

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// portLine is where a run says its ports are.
var portLine = regexp.MustCompile(`Port (\w+): (127\.0\.0\.1:\d+)`)

// address is where a port of the run is.
func (a *attended) address(t *testing.T, label string) string {
	t.Helper()
	for _, m := range portLine.FindAllStringSubmatch(a.String(), -1) {
		if m[1] == label {
			return m[2]
		}
	}
	t.Fatalf("the run has no port %s\n%s", label, a)
	return ""
}

// page is what a URL shows, "" while nothing does.
func page(url string) string {
	cl := http.Client{Timeout: 10 * time.Second}
	resp, err := cl.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// TestShapesGivenTheirCluster: the shapes that need a client's or a server's
// part run once the command line has it.
func TestShapesGivenTheirCluster(t *testing.T) {
	image := testenv.Image(t)
	t.Run("01 bind and volume", func(t *testing.T) { boundAndServed(t, image) })
	t.Run("03 drain", func(t *testing.T) { drained(t, image) })
	t.Run("04 dispatch", func(t *testing.T) {
		payload := filepath.Join(t.TempDir(), "payload")
		if err := os.WriteFile(payload, []byte("payload "), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, "-meta", "backup_name=nightly", "-meta", "table=users", "-payload", payload, shape(t, "04-dispatch-batch", image))
		r.wants(t, "stdout", r.stdout, "payload restore nightly table users")
		if r.code != 3 {
			t.Errorf("exit code %d, want the shell's 3\n%s", r.code, r.stderr)
		}
	})
	t.Run("04 bare", func(t *testing.T) {
		r := run(t, "-meta", "backup_name=nightly", shape(t, "04-dispatch-batch", image, "; exit 3", `; echo [${NOMAD_META_table}] $NOMAD_JOB_ID of $NOMAD_JOB_PARENT_ID; exit 4`))
		r.wants(t, "stdout", r.stdout, "restore nightly table\n", "[] shape-04/dispatch-", " of shape-04\n")
		if r.code != 4 {
			t.Errorf("exit code %d, want 4\n%s", r.code, r.stderr)
		}
	})
	t.Run("05 listed path", func(t *testing.T) {
		shared := t.TempDir()
		if err := os.WriteFile(filepath.Join(shared, "dump"), make([]byte, 64<<10), 0o644); err != nil {
			t.Fatal(err)
		}
		r := run(t, "-plugin-config", allowing(t, shared), shape(t, "05-periodic-batch", image, "/srv/db", shared, "du -s /data", "du -s /data && ! touch /data/x"))
		r.wants(t, "stdout", r.stdout, "backup_20", "\t/data")
		r.wants(t, "stderr", r.stderr, "periodic has no effect here: the job runs once, now", "Read-only file system")
		if r.code != 0 {
			t.Errorf("exit code %d\n%s", r.code, r.stderr)
		}
	})
}

// allowing is the configuration of an operator who lists a folder.
func allowing(t *testing.T, folder string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "plugin.hcl")
	text := fmt.Sprintf("endpoint = %q\negress_subnet_pool = %q\nvolumes {\n  paths = [%q]\n}\n", testenv.Engine(t), pool, folder)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// boundAndServed: what the templates made is served on the group's port, and the
// host volume is there to be written to, by root.
func boundAndServed(t *testing.T, image string) {
	state := t.TempDir()
	a := attend(t, "-host-volume", "shape-state="+state, shape(t, "01-web-template-bind", image,
		`["httpd", "-f", "-v", "-p", "8080", "-h", "/srv", "-c", "/etc/httpd.conf"]`,
		`["/bin/sh", "-c", "id -un > /var/lib/app/who; exec httpd -f -v -p 8080 -h /srv -c /etc/httpd.conf"]`, `"10s"`, `"1s"`))
	a.until(t, "app * Started")
	url := "http://" + a.address(t, "http") + "/"
	a.Eventually(t, "the bound page is served", func() bool { return strings.HasPrefix(page(url), "alloc ") })
	a.until(t, ` * Check of service "shape-01": passing: 200 OK`)
	who, err := os.ReadFile(filepath.Join(state, "who"))
	if err != nil || strings.TrimSpace(string(who)) != "root" {
		t.Errorf("the host volume has %q, %v", who, err)
	}
	a.stop(t)
	if page(url) != "" {
		t.Error("the port is still open")
	}
}

// drained: without the one line that is refused the job runs; both ports are
// there, and its kill signal comes long before a SIGKILL would.
func drained(t *testing.T, image string) {
	a := attend(t, "-max-kill-timeout", "150s", shape(t, "03-api-drain-canary", image, `network_mode = "host"`, "",
		`args         = ["--port", "18080"]`, `command = "/bin/sh"`+"\n"+`args = ["-c", "trap 'echo got TERM; exec sleep 6' TERM; mkdir /tmp/w; echo fine > /tmp/w/health; httpd -p 18080 -h /tmp/w; echo grpc $GRPC_PORT on [$NODE_ID] http $NOMAD_PORT_http; while :; do sleep 0.2; done"]`,
		"static = 18080", "to = 18080", `"3s"`, `"1s"`,
		`"`+image+`"`+"\n      }\n\n      resources {\n        cpu    = 250", `"`+image+`"`+"\ncommand = \"/bin/true\"\n      }\n\n      resources {\n        cpu    = 250"))
	a.until(t, "start   | grpc ")
	_, port, _ := strings.Cut(a.address(t, "grpc"), ":")
	a.until(t, "migrate * Terminated: exit code 0")
	if said := regexp.MustCompile(`grpc ` + port + ` on \[[0-9a-f-]{36}\] http 18080\n`); !said.MatchString(a.String()) {
		t.Errorf("want %s\n%s", said, a)
	}
	a.until(t, `start   * Check of service "shape-03": passing: 200 OK`)
	code := a.stop(t)
	if text := a.String(); !strings.Contains(text, "got TERM") || code != 0 || strings.Contains(text, "kill_timeout = 2m30s is cut") {
		t.Errorf("exit code %d\n%s", code, text)
	}
}
