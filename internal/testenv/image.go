package testenv

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/google/uuid"
)

// busyboxPath is where Debian's and Ubuntu's busybox-static put the binary.
const busyboxPath = "/bin/busybox"

// Image loads a small image made of busybox-static under a name of this
// test's own and returns the name. It has users root, daemon (1) and agent
// (1000), and /bin/sh as its command.
func Image(t testing.TB) string {
	t.Helper()
	return ImageWith(t, ImageConfig{Cmd: []string{"/bin/sh"}})
}

// ImageConfig is the part of an image's configuration a test may set.
type ImageConfig struct {
	Entrypoint, Cmd, Env []string
	User, WorkingDir     string
	StopSignal           string
	Labels               map[string]string
	Architecture         string            // "" is amd64
	Empty                bool              // no files at all
	ExtraFiles           map[string]string // by path; etc/passwd takes the place of the usual one
	Links                map[string]string // symbolic links and where they lead
}

// ImageWith is Image with a configuration of the test's own.
func ImageWith(t testing.TB, c ImageConfig) string {
	t.Helper()
	name := "wardyn-test-" + uuid.NewString()[:8] + ":1"
	archive, err := imageArchive(name, c)
	if err != nil {
		if os.IsNotExist(err) {
			missing(t, "busybox-static", err.Error())
		}
		t.Fatal(err)
	}
	cl := Client(t, Engine(t))
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	resp, err := cl.ImageLoad(ctx, bytes.NewReader(archive))
	if err != nil {
		t.Fatalf("load test image: %v", err)
	}
	said, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || bytes.Contains(said, []byte("errorDetail")) {
		t.Fatalf("load test image: %v: %s", err, said)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		// A test may have removed it itself.
		if _, err := cl.ImageRemove(ctx, name, image.RemoveOptions{Force: true}); err != nil && !errdefs.IsNotFound(err) {
			t.Errorf("remove test image: %v", err)
		}
	})
	return name
}

func imageArchive(name string, c ImageConfig) ([]byte, error) {
	layer, err := busyboxLayer(c)
	if err != nil {
		return nil, err
	}
	arch := c.Architecture
	if arch == "" {
		arch = "amd64"
	}
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "created": "1970-01-01T00:00:00Z",
		// An identity of its own: an engine that loads an image while it removes
		// another name of it may lose both.
		"comment": name,
		"config": map[string]any{
			"Entrypoint": c.Entrypoint, "Cmd": c.Cmd, "Env": append([]string{"PATH=/bin:/usr/bin"}, c.Env...),
			"User": c.User, "WorkingDir": c.WorkingDir, "StopSignal": c.StopSignal, "Labels": c.Labels,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{sha(layer)}},
	})
	if err != nil {
		return nil, err
	}
	id := strings.TrimPrefix(sha(config), "sha256:")
	manifest, err := json.Marshal([]map[string]any{{
		"Config": id + ".json", "RepoTags": []string{name}, "Layers": []string{id + "/layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put(w, id+".json", 0o444, config)
	put(w, id+"/layer.tar", 0o444, layer)
	put(w, "manifest.json", 0o444, manifest)
	return b.Bytes(), w.Close()
}

func busyboxLayer(c ImageConfig) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if !c.Empty {
		bin, err := os.ReadFile(busyboxPath)
		if err != nil {
			return nil, err
		}
		list, err := exec.Command(busyboxPath, "--list").Output()
		if err != nil {
			return nil, fmt.Errorf("%s --list: %w", busyboxPath, err)
		}
		put(w, "bin/busybox", 0o755, bin)
		for applet := range strings.FieldsSeq(string(list)) {
			if applet != "busybox" {
				w.WriteHeader(&tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777})
			}
		}
		if _, own := c.ExtraFiles["etc/passwd"]; !own { // an engine takes no layer with a file twice
			put(w, "etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n"))
		}
		put(w, "etc/group", 0o644, []byte("root:x:0:\ndaemon:x:1:\nagent:x:1000:\n"))
		w.WriteHeader(&tar.Header{Name: "home/agent/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: 1000, Gid: 1000})
		w.WriteHeader(&tar.Header{Name: "root/", Typeflag: tar.TypeDir, Mode: 0o700})
		w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777})
	}
	for name, text := range c.ExtraFiles {
		put(w, name, 0o755, []byte(text))
	}
	for name, to := range c.Links {
		w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777})
	}
	return b.Bytes(), w.Close()
}
