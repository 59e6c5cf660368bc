package allocdir

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLayoutAndModes(t *testing.T) {
	old := unix.Umask(0o077) // modes must not depend on it
	t.Cleanup(func() { unix.Umask(old) })
	a, err := New(filepath.Join(t.TempDir(), "allocs"), "a1", false)
	if err != nil {
		t.Fatal(err)
	}
	task, err := a.AddTask("web")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{
		a.Dir: 0o755, a.Shared: 0o777, a.Logs: 0o777,
		filepath.Join(a.Shared, "data"): 0o777, filepath.Join(a.Shared, "tmp"): 0o777 | fs.ModeSticky,
		task.Dir: 0o777, task.Local: 0o777, task.Secrets: 0o777, task.Private: 0o700, task.Tmp: 0o777 | fs.ModeSticky,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := info.Mode() &^ fs.ModeDir; got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
	}
	if filepath.Join(a.Dir, "web") != task.Dir {
		t.Errorf("the driver derives the task directory, which is %s", task.Dir)
	}
}

// TestAgain: an agent that restarts finds its directories, and their content, in place.
func TestAgain(t *testing.T) {
	root := t.TempDir()
	for i := range 2 {
		a, err := New(root, "a1", false)
		if err != nil {
			t.Fatal(err)
		}
		task, err := a.AddTask("web")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(task.Local, "kept")
		if i == 0 {
			if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		if err := a.Remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(a.Dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", a.Dir, err)
		}
	}
}

func TestSecretsInMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a tmpfs needs root")
	}
	root := t.TempDir()
	a, err := New(root, "a1", true)
	if err != nil {
		t.Fatal(err)
	}
	task, err := a.AddTask("web")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unmount(task.Secrets) })
	if mounted, err := isMount(task.Secrets); err != nil || !mounted {
		t.Fatalf("secrets are not on a file system of their own: %v", err)
	}
	if err := os.WriteFile(filepath.Join(task.Secrets, "key"), make([]byte, 2*secretsBytes), 0o600); err == nil {
		t.Error("secrets take more than their size")
	}
	if _, err := a.AddTask("web"); err != nil {
		t.Errorf("taking it again: %v", err)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", a.Dir, err)
	}
}

func TestNames(t *testing.T) {
	a, err := New(t.TempDir(), "a1", false)
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		"web": true, "my task": true, "..x": true, "": false, ".": false, "..": false, "a/b": false, "a\x00": false, "alloc": false,
	} {
		if _, err := a.AddTask(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := New(t.TempDir(), "../x", false); err == nil {
		t.Error("an allocation id with a slash was taken")
	}
}
