package taskpath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// K37: what a task can do to a tree neither leads the measurement out of it nor
// hides what is in it.
func TestK37TreeSize(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	fill := func(path string, kib int) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, make([]byte, kib<<10), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	size := func(skip string) int64 {
		t.Helper()
		n, err := TreeSize(t.Context(), dir, skip)
		if err != nil {
			t.Fatal(err)
		}
		return n >> 10
	}
	fill(filepath.Join(outside, "host"), 4096)
	fill(filepath.Join(dir, "a", "file"), 1024)
	if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "out")), os.Symlink(filepath.Join(outside, "host"), filepath.Join(dir, "file")),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	first := size("")
	if first < 1024 || first > 1100 {
		t.Errorf("%d KiB", first)
	}
	if err := os.Link(filepath.Join(dir, "a", "file"), filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	if n := size(""); n != first {
		t.Errorf("a second name of a file counts: %d KiB, %d before", n, first)
	}
	fill(filepath.Join(dir, "logs", "x"), 512)
	fill(filepath.Join(dir, "a", "logs", "x"), 512)
	if all, some := size(""), size("logs"); all < first+1024 || some < first+512 || some >= all {
		t.Errorf("%d KiB, without logs %d", all, some)
	}
}

// K37: files without contents fill a file system too, and links and folders do.
func TestK37EmptyFilesCount(t *testing.T) {
	dir := t.TempDir()
	const each = 100
	for i := range each {
		name := filepath.Join(dir, strconv.Itoa(i))
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Symlink("x", name+".link"), os.Mkdir(name+".d", 0o700), unix.Mkfifo(name+".pipe", 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	n, err := TreeSize(t.Context(), dir, "")
	if want := int64(4 * each * leastFile); err != nil || n < want || n > want+want/8 {
		t.Errorf("%d bytes, %v; want about %d", n, err, want)
	}
}

// K37: a path that is too long to be named is measured; what lies too deep for
// that is said, beside what could be.
func TestK37DeepTrees(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("x", 250)
	for depth := 1; depth <= maxDepth+1; depth++ {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
		if depth == 40 { // ten times as much as fits into a path
			file, err := unix.Openat(fd, "big", unix.O_CREAT|unix.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Write(file, make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
			unix.Close(file)
			if n, err := TreeSize(t.Context(), dir, ""); err != nil || n < 1<<20 {
				t.Errorf("at depth 40: %d, %v", n, err)
			}
		}
	}
	unix.Close(fd)
	if n, err := TreeSize(t.Context(), dir, ""); !errors.Is(err, ErrTooDeep) || n < 1<<20 {
		t.Errorf("%d, %v", n, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := TreeSize(over, dir, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := TreeSize(t.Context(), filepath.Join(dir, "none"), ""); !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v", err)
	}
}
