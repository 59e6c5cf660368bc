package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestMountsBelow(t *testing.T) {
	info := strings.Join([]string{
		"21 1 8:1 / / rw,relatime - ext4 /dev/root rw",
		"22 21 0:5 / /tmp rw - tmpfs tmpfs rw",
		"23 22 0:6 / /tmp/run rw shared:1 - tmpfs tmpfs rw",
		`24 22 0:7 / /tmp/run/a\040b rw - tmpfs tmpfs rw`,
		"25 22 0:8 / /tmp/running rw - tmpfs tmpfs rw",
	}, "\n") + "\n"
	for dir, want := range map[string][]string{
		"/tmp/run":     {"/tmp/run", "/tmp/run/a b"},
		"/tmp/run/a b": {"/tmp/run/a b"},
		"/tmp/run/a":   nil,
		"/srv":         nil,
	} {
		if got, err := mountsBelow(strings.NewReader(info), dir); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", dir, got, err, want)
		}
	}
	if _, err := mountsBelow(strings.NewReader("1 2 3\n"), "/"); err == nil {
		t.Error("a short line is no error")
	}
}

// TestNothingIsRemovedThroughAMount: what a surviving task has bound into a
// run's directory stays whole.
func TestNothingIsRemovedThroughAMount(t *testing.T) {
	precious, dir := t.TempDir(), filepath.Join(t.TempDir(), "run")
	point := filepath.Join(dir, "stage", "1")
	if err := os.MkdirAll(point, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(precious, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := syscall.Mount(precious, point, "", syscall.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		err := removeTree(dir)
		if uerr := syscall.Unmount(point, 0); uerr != nil {
			t.Fatal(uerr)
		}
		if err == nil || !strings.Contains(err.Error(), point) {
			t.Errorf("under a mount: %v", err)
		}
	}
	if err := removeTree(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(precious, "file")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}
