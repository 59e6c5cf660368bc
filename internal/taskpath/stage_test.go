package taskpath

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mountsBelow counts the mounts of this process's namespace below dir.
func mountsBelow(t *testing.T, dir string) int {
	t.Helper()
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], dir) {
			n++
		}
	}
	return n
}

func stageOne(t *testing.T, d Dirs, dir, name, path string) string {
	t.Helper()
	f, err := d.Open(Source{Path: path}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, err := Stage(dir, name, f)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestK31Stage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("bind mounts need root")
	}
	d := taskDirs(t)
	dir := filepath.Join(t.TempDir(), "stage", "run")
	t.Cleanup(func() { Unstage(dir) })
	write(t, filepath.Join(d.Local(), "conf"), "mine")

	folder := stageOne(t, d, dir, "0", "local/workspace")
	file := stageOne(t, d, dir, "1", "local/conf")

	// What the sandbox does to the names afterwards changes nothing.
	write(t, filepath.Join(d.Local(), "workspace", "kept"), "data")
	for name, to := range map[string]string{"conf": "/etc/shadow", "workspace": "/etc"} {
		p := filepath.Join(d.Local(), name)
		if err := os.Rename(p, p+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("staged file reads %q, %v", b, err)
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 1 || names[0].Name() != "kept" {
		t.Errorf("staged folder holds %v, %v", names, err)
	}

	if n := mountsBelow(t, dir); n != 2 {
		t.Errorf("%d mounts, want 2", n)
	}
	for range 2 { // the second finds nothing left
		if err := Unstage(dir); err != nil {
			t.Fatal(err)
		}
	}
	if n := mountsBelow(t, dir); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the staging folder is left: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(d.Local(), "workspace.old", "kept")); err != nil || string(b) != "data" {
		t.Errorf("unstaging touched what was staged: %q, %v", b, err)
	}
}

func TestK31UnstageKeepsWhatIsNoMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("bind mounts need root")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "0", "precious"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Unstage(dir); err == nil {
		t.Error("a tree that was never staged was removed without a word")
	}
	if _, err := os.Stat(filepath.Join(dir, "0", "precious")); err != nil {
		t.Error(err)
	}
}

func TestK31UnstageTwofoldMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("bind mounts need root")
	}
	d := taskDirs(t)
	dir := filepath.Join(t.TempDir(), "stage")
	t.Cleanup(func() { Unstage(dir) })
	at := stageOne(t, d, dir, "0", "local")
	// A crash between two attempts may leave one mount over another.
	if err := mountOver(at); err != nil {
		t.Fatal(err)
	}
	if err := Unstage(dir); err != nil {
		t.Fatal(err)
	}
	if n := mountsBelow(t, dir); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func mountOver(at string) error { return unix.Mount(at, at, "", unix.MS_BIND, "") }
