package egress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// memory is the memory of a container's processes as this machine sees it: at
// CC2 that is the kernel in user space, its helpers, and the file that the
// task's own pages lie in, also those that were given back.
type memory struct{ pids []int }

// memoryOf finds the processes of a container, by their cgroup or, for the
// helpers of a runtime, by their command line.
func memoryOf(t *testing.T, container string) memory {
	t.Helper()
	var m memory
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		cgroup, _ := os.ReadFile(filepath.Join(dir, "cgroup")) // it may have ended
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		program, _, _ := bytes.Cut(args, []byte{0})
		helper := strings.HasPrefix(filepath.Base(string(program)), "runsc") && bytes.Contains(args, []byte(container))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && (helper || bytes.Contains(cgroup, []byte(container))) {
			m.pids = append(m.pids, pid)
		}
	}
	if len(m.pids) == 0 {
		t.Fatalf("container %s has no process", container)
	}
	return m
}

// holds says which of the values are in it, and where. It is an error when
// nothing could be read.
func (m memory) holds(values ...string) (found []string, bytesRead int64, err error) {
	seen := map[string]bool{}
	look := func(where string, r io.ReaderAt, from, to int64) {
		bytesRead += search(r, from, to, values, func(v string) {
			if at := where + " holds " + v; !seen[at] {
				seen[at] = true
				found = append(found, at)
			}
		})
	}
	for _, pid := range m.pids {
		if err := eachPage(pid, look); err != nil {
			return found, bytesRead, err
		}
		eachMemoryFile(pid, look)
	}
	if bytesRead == 0 {
		err = fmt.Errorf("no page of %v could be read", m.pids)
	}
	return found, bytesRead, err
}

// search looks for values in a range, in pieces that overlap.
func search(r io.ReaderAt, from, to int64, values []string, hit func(string)) (read int64) {
	const piece, overlap = 1 << 20, 256
	b := make([]byte, piece)
	for at := from; at < to; at += piece - overlap {
		n, _ := r.ReadAt(b[:min(piece, to-at)], at) // a page may have gone meanwhile
		read += int64(n)
		for _, v := range values {
			if bytes.Contains(b[:n], []byte(v)) {
				hit(v)
			}
		}
	}
	return read
}

type lookFunc func(where string, r io.ReaderAt, from, to int64)

// eachPage visits the pages that a process really has: touching others would
// make them.
func eachPage(pid int, look lookFunc) error {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil || len(maps) == 0 {
		return nil // it has ended, or is a thread of the kernel
	}
	mem, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return unlessEnded(err)
	}
	defer mem.Close()
	table, err := os.Open(filepath.Join(dir, "pagemap"))
	if err != nil {
		return unlessEnded(err)
	}
	defer table.Close()
	name, _ := os.ReadFile(filepath.Join(dir, "comm"))
	where := fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
	for s := bufio.NewScanner(bytes.NewReader(maps)); s.Scan(); {
		var from, to int64
		var perm string
		if _, err := fmt.Sscanf(s.Text(), "%x-%x %s", &from, &to, &perm); err == nil && perm[0] == 'r' {
			eachPresent(table, from, to, func(from, to int64) { look(where, mem, from, to) })
		}
	}
	return nil
}

// unlessEnded is the error of opening a process's file, unless the process has
// ended meanwhile.
func unlessEnded(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// eachPresent visits the runs of pages that are in memory or swapped out.
func eachPresent(table io.ReaderAt, from, to int64, visit func(from, to int64)) {
	const entries, used = 1 << 16, 0b11 << 62
	page := int64(os.Getpagesize())
	b := make([]byte, 8*entries)
	for at := from; at < to; at += entries * page {
		n, _ := table.ReadAt(b[:8*min(entries, (to-at)/page)], at/page*8)
		start := int64(-1)
		for i := range int64(n / 8) {
			has := binary.NativeEndian.Uint64(b[i*8:])&used != 0
			switch {
			case has && start < 0:
				start = at + i*page
			case !has && start >= 0:
				visit(start, at+i*page)
				start = -1
			}
		}
		if start >= 0 {
			visit(start, at+int64(n/8)*page)
		}
	}
}

// eachMemoryFile visits what a process's files in memory hold, without the
// holes in them.
func eachMemoryFile(pid int, look lookFunc) {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		name, err := os.Readlink(fd)
		if err != nil || !strings.HasPrefix(name, "/memfd:") {
			continue
		}
		f, err := os.Open(fd)
		if err != nil {
			continue
		}
		for at := int64(0); ; {
			from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
			if err != nil {
				break
			}
			if at, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE); err != nil {
				break
			}
			look(name+" of process "+strconv.Itoa(pid), f, from, at)
		}
		f.Close()
	}
}

// memoryHoldsNone looks for secrets in the memory of the sandbox's processes.
// Two controls show that it would find one: a value that a process of the
// sandbox puts together, and held, a secret that the sidecar works with.
func (w *work) memoryHoldsNone(t *testing.T, held string, secrets ...string) {
	t.Helper()
	ids := w.containers(t)
	sandbox := memoryOf(t, ids["agent"])
	found, n, err := sandbox.holds(secrets...)
	if err != nil || len(found) > 0 {
		t.Errorf("%d processes, %d bytes: %q, %v", len(sandbox.pids), n, found, err)
	}
	t.Logf("searched %d bytes of %d processes", n, len(sandbox.pids))
	const first, second = "a-planted-value-that", "-must-be-found-41c7"
	if out := w.sh(t, "(v="+first+"; v=$v"+second+"; sleep 3600; echo $v) >/dev/null 2>&1 & echo planted"); !strings.Contains(out, "planted") {
		t.Fatal(out)
	}
	eventually(t, "the planted value", func() bool {
		found, _, err := memoryOf(t, ids["agent"]).holds(first + second)
		return err == nil && len(found) > 0
	})
	if found, _, err := memoryOf(t, ids["proxy"]).holds(held); err != nil || len(found) == 0 {
		t.Errorf("the sidecar's memory: %q, %v", found, err)
	}
}
