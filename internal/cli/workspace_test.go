package cli

import (
	"bytes"
	"context"
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

// TestAllocDirGoesWithItsParents: the folders that -alloc-dir made go with the
// allocation, those that were there stay, and with -keep all do.
func TestAllocDirGoesWithItsParents(t *testing.T) {
	for name, c := range map[string]struct {
		keep, unmade bool
		left         []string
	}{
		"gone":   {left: []string{"."}},
		"kept":   {keep: true, left: []string{".", "a", "a/b", "a/b/alloc-id"}},
		"unmade": {unmade: true, left: []string{"."}},
	} {
		base := t.TempDir()
		t.Setenv("TMPDIR", t.TempDir())
		r := &run{options: runOptions{allocRoot: filepath.Join(base, "a", "b"), keep: c.keep}, config: map[string]any{}}
		w, err := r.workspace(&placement{alloc: "alloc-id"})
		if err != nil {
			t.Fatal(err)
		}
		if alloc := filepath.Join(w.alloc, "alloc-id"); !c.unmade {
			err = os.MkdirAll(alloc, 0o700)
			if err == nil && !c.keep { // the backend removes its own
				err = os.Remove(alloc)
			}
		}
		if err == nil {
			err = w.remove(t.Context(), Env{}, nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		err = filepath.WalkDir(base, func(p string, _ os.DirEntry, err error) error {
			rel, _ := filepath.Rel(base, p)
			left = append(left, rel)
			return err
		})
		if err != nil || !slices.Equal(left, c.left) {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

// TestAnAbsentEngineIsToldOnce: a run that never had an engine does not repeat
// that for everything it could not remove; any other failure is told.
func TestAnAbsentEngineIsToldOnce(t *testing.T) {
	for name, c := range map[string]struct {
		failed, purge error
		told          bool
	}{
		"never there": {&unwell{}, ErrEngineAway, false},
		"gone later":  {nil, ErrEngineAway, true},
		"other":       {&unwell{}, os.ErrPermission, true},
	} {
		t.Setenv("TMPDIR", t.TempDir())
		r := &run{config: map[string]any{}}
		w, err := r.workspace(&placement{alloc: "alloc-id"})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(w.data, 0o700); err != nil {
			t.Fatal(err)
		}
		e := Env{Purge: func(context.Context, map[string]any, bool) error { return c.purge }}
		if err := w.remove(t.Context(), e, nil, c.failed); (err != nil) != c.told {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTempFolderTooLong: where no socket fits, that is said before anything is
// made.
func TestTempFolderTooLong(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	code, err := runJob(t.Context(), testEnv(&bytes.Buffer{}, &bytes.Buffer{}), runOptions{job: "testdata/talk.nomad.hcl"}, (&pretended{}).launch)
	if code != exitFailed || err == nil || !strings.Contains(err.Error(), "bytes too long for the plugin's socket below it; set a shorter one") {
		t.Errorf("exit %d, %v", code, err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
