package taskpath

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// taskDirs lays out an allocation with one task as Nomad does.
func taskDirs(t *testing.T) Dirs {
	t.Helper()
	d := Dirs{Alloc: t.TempDir(), Name: "web"}
	for _, p := range []string{d.Local(), d.Secrets(), filepath.Join(d.Shared(), "data"), filepath.Join(d.Shared(), "logs")} {
		if err := os.MkdirAll(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestK31Open(t *testing.T) {
	d := taskDirs(t)
	outside := t.TempDir()
	write(t, filepath.Join(d.Local(), "conf"), "x")
	write(t, filepath.Join(outside, "secret"), "x")
	for link, to := range map[string]string{
		"abs":    outside,
		"rel":    "../../../..",
		"inside": "conf",
		"magic":  "/proc/self/root",
	} {
		if err := os.Symlink(to, filepath.Join(d.Local(), link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(d.Local(), "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		create bool
		want   string // "" opens, else words of the refusal
	}{
		{"local", false, ""},
		{"local/conf", false, ""},
		{"local/new/deep", true, ""},
		{"local/new/deep", false, ""},
		{"local/missing", false, "no such file"},
		{"local/abs", true, "symbolic link"},
		{"local/abs/secret", true, "symbolic link"},
		{"local/abs/new", true, "symbolic link"},
		{"local/rel/etc", true, "symbolic link"},
		{"local/inside", true, "symbolic link"},
		{"local/magic/etc", true, "symbolic link"},
		{"local/conf/below", true, "not a folder"},
		{"local/fifo", true, "neither a folder nor a regular file"},
		{"../../x", true, "leaves"},
	} {
		f, err := d.Open(Source{Path: c.path}, c.create)
		switch {
		case err == nil && c.want != "":
			t.Errorf("%s: opened, want %q", c.path, c.want)
		case err != nil && c.want == "":
			t.Errorf("%s: %v", c.path, err)
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q in it", c.path, err, c.want)
		}
		if f != nil {
			f.Close()
		}
	}
	if names, _ := os.ReadDir(outside); len(names) != 1 {
		t.Errorf("something was made behind a link: %v", names)
	}
}

func TestK31MadeFolderIsForEveryUser(t *testing.T) {
	d := taskDirs(t)
	defer syscall.Umask(syscall.Umask(0o077))
	f, err := d.Open(Source{Shared: true, Path: "data/a/b"}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range []string{"data/a", "data/a/b"} {
		fi, err := os.Stat(filepath.Join(d.Shared(), p))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != 0o777 {
			t.Errorf("%s has mode %v", p, fi.Mode())
		}
	}
}

func TestK31BaseIsNoLink(t *testing.T) {
	d := taskDirs(t)
	if err := Check(d.Local()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Local()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", d.Local()); err != nil {
		t.Fatal(err)
	}
	if err := Check(d.Local()); err == nil {
		t.Error("a link passes for local/")
	}
}

func TestK31OwnFolder(t *testing.T) {
	d := taskDirs(t)
	for range 2 {
		p, err := d.MakeOwn()
		if err != nil {
			t.Fatal(err)
		}
		if fi, _ := os.Lstat(p); fi.Mode().Perm() != 0o700 {
			t.Errorf("mode %v", fi.Mode())
		}
	}
	own := filepath.Join(d.Task(), OwnName)
	for name, plant := range map[string]func() error{
		"link": func() error { return os.Symlink(t.TempDir(), own) },
		"file": func() error { return os.WriteFile(own, nil, 0o700) },
		"open": func() error { return os.Mkdir(own, 0o755) },
	} {
		if err := os.RemoveAll(own); err != nil {
			t.Fatal(err)
		}
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.MakeOwn(); err == nil {
			t.Errorf("%s: taken for the driver's own folder", name)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	os.RemoveAll(own)
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(own, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := d.MakeOwn(); err == nil {
		t.Error("a folder of another user is taken for the driver's own")
	}
}

func TestK31HostPathsThroughNoLink(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{
		dir: true, filepath.Join(dir, "file"): true, filepath.Join(dir, "link"): false, filepath.Join(dir, "link", "passwd"): false,
		filepath.Join(dir, "none"): false, "/dev/null": false,
	} {
		f, err := OpenHost(path)
		if (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
		if f != nil {
			f.Close()
		}
	}
}

func TestK31OpenFileReads(t *testing.T) {
	d := taskDirs(t)
	write(t, filepath.Join(d.Local(), "image.tar"), "archive")
	f, err := d.OpenFile(Source{Path: "local/image.tar"})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 16)
	if n, _ := f.Read(b); string(b[:n]) != "archive" {
		t.Errorf("read %q", b[:n])
	}
	for _, p := range []string{"local", "local/none"} {
		if _, err := d.OpenFile(Source{Path: p}); err == nil {
			t.Errorf("%s is opened", p)
		}
	}
}

// K31: whoever may write in the parent can put a link in the place of a folder
// between its making and the setting of its mode.
func TestK31ModeOfAFolderFollowsNoLink(t *testing.T) {
	d := taskDirs(t)
	target := filepath.Join(t.TempDir(), "host")
	if err := os.Mkdir(target, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(d.Local(), "swapped")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.Local(), "made"), 0o700); err != nil {
		t.Fatal(err)
	}
	parent, err := openBase(d.Local())
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	if err := openUp(parent, "swapped"); err == nil {
		t.Error("a link was followed")
	}
	if err := openUp(parent, "made"); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]os.FileMode{target: 0o700, filepath.Join(d.Local(), "made"): 0o777} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, fi.Mode(), err, want)
		}
	}
}
