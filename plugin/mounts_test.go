package plugin

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

func TestK31StagedVolumes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("bind mounts need root")
	}
	b := newBench(t, benchOptions{})
	c := args("true")
	c["volumes"] = []any{"local/workspace:/workspace", "local/conf:/etc/agent:ro"}
	tc := b.task("web", c)
	if err := os.WriteFile(filepath.Join(tc.AllocDir, "web/local/conf"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(b.stage + "/*/*"); len(left) != 2 {
		t.Errorf("staged: %v", left)
	}
	b.wait(tc.ID)
	b.destroy(tc.ID)
	b.nothingLeft()

	c["volumes"] = []any{"local/missing:/x:ro", "local/a:/y"}
	tc = b.task("web", c)
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || host.IsRecoverable(err) || !strings.Contains(err.Error(), "local/missing") {
		t.Errorf("a read-only source that is not there: %v", err)
	}
	tc = b.task("web", args("true"))
	if err := os.Symlink("/etc", filepath.Join(tc.AllocDir, "web/local/link")); err != nil {
		t.Fatal(err)
	}
	c["volumes"] = []any{"local/a:/a", "local/link/passwd:/y"}
	data, err := b.host.EncodeTaskConfig(b.ctx(), c, host.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	tc.DriverConfig = data
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || host.IsRecoverable(err) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a source behind a link: %v", err)
	}
	b.nothingLeft()
}

// TestK32Sockets: what would answer a connect is found, and nothing else.
func TestK32Sockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "wd") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := taskpath.Dirs{Alloc: dir, Name: "t"}
	if got := sockets(d); len(got) > 0 || len(filesIn(d.Secrets())) > 0 {
		t.Errorf("in nothing: %v", got)
	}
	for _, p := range []string{d.Secrets(), filepath.Join(d.Shared(), "tmp")} {
		if err := os.MkdirAll(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{filepath.Join(d.Secrets(), "api.sock"), filepath.Join(d.Shared(), "tmp", "c.sock")} {
		l, err := net.Listen("unix", p)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if err := os.WriteFile(filepath.Join(d.Secrets(), mountMarker), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if len(filesIn(d.Secrets())) > 0 {
		t.Error("a socket counts as a file")
	}
	if err := os.WriteFile(filepath.Join(d.Secrets(), "key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sockets(d); !slices.Equal(got, []string{"/alloc/tmp/c.sock", "/secrets/api.sock"}) || !slices.Equal(filesIn(d.Secrets()), []string{"key"}) {
		t.Errorf("got %v", got)
	}
}

// A source that is not there is refused with the place it was to be mounted at,
// whichever option named it, and with what to do.
func TestK31MissingSource(t *testing.T) {
	b := newBench(t, benchOptions{})
	for name, config := range map[string]any{
		"volumes": []any{"local/none:/m1:ro"},
		"mount":   []any{map[string]any{"type": "bind", "source": "local/none", "target": "/m1", "readonly": true}},
	} {
		c := args("true")
		c[name] = config
		_, _, err := b.host.StartTask(b.ctx(), b.task("web", c))
		if err == nil || !strings.Contains(err.Error(), "mount at /m1: ") || !strings.Contains(err.Error(), "template") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
