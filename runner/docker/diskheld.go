package docker

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// heldTimeout bounds the look at what a sandbox's processes hold, which is part
// of a measurement and not all of it.
const heldTimeout = 5 * time.Second

// removedMark ends the kernel's name for a file that has been removed.
const removedMark = " (deleted)"

// heldOf is how many bytes the processes in the control group of pid keep on
// disks by files that have been removed: open ones, and such as are mapped.
// They take room until the last of them is closed, and no folder shows them.
// What lies in memory is not counted, nor what is on its way through a socket.
// A sandbox that has ended holds nothing.
func heldOf(ctx context.Context, pid int) (int64, error) {
	if pid <= 0 {
		return 0, nil
	}
	g, err := findGroup(pid)
	if err != nil {
		return 0, goneProcess(err)
	}
	b, err := os.ReadFile(filepath.Join(g.pids.path, "cgroup.procs"))
	if err != nil {
		return 0, goneProcess(err)
	}
	var pids []int
	for word := range strings.FieldsSeq(string(b)) {
		if n, err := strconv.Atoi(word); err == nil {
			pids = append(pids, n)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	return heldBy(ctx, pids)
}

func goneProcess(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// heldBy is heldOf for processes by their ids.
func heldBy(ctx context.Context, pids []int) (int64, error) {
	h := held{seen: map[[2]uint64]struct{}{}}
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		tasks, err := os.ReadDir(filepath.Join(dir, "task"))
		if err != nil {
			continue // it has ended
		}
		for seen, i := false, 0; i < len(tasks) && !seen; i++ { // the first thread may have ended before the process
			seen = h.mapped(ctx, filepath.Join("/proc", tasks[i].Name()))
		}
		for _, t := range tasks {
			if tid, err := strconv.Atoi(t.Name()); err == nil && (tid == pid || !sameFiles(pid, tid)) {
				h.open(ctx, filepath.Join(dir, "task", t.Name(), "fd"))
			}
		}
	}
	return h.total, ctx.Err()
}

// sameFiles reports whether two threads have one table of open files. A thread
// can be made with a table of its own.
func sameFiles(a, b int) bool {
	const kcmpFiles = 2
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpFiles, 0, 0, 0)
	return errno == 0 && order == 0
}

// held adds up removed files, each once.
type held struct {
	total int64
	seen  map[[2]uint64]struct{}
}

// open counts what a table of open files has.
func (h *held) open(ctx context.Context, dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	for ctx.Err() == nil {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			// The name first: a file that is there may be on a server that hangs.
			at := filepath.Join(dir, name)
			if to, err := os.Readlink(at); err == nil && strings.HasSuffix(to, removedMark) {
				h.add(at)
			}
		}
		if err != nil { // the end, or the end of the process
			return
		}
	}
}

// mapped counts what a process has mapped, which it may have closed since. It
// reports whether there is anything mapped: a thread that has ended shows nothing.
func (h *held) mapped(ctx context.Context, dir string) (some bool) {
	f, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return false
	}
	defer f.Close()
	for r := bufio.NewReader(f); ctx.Err() == nil; {
		line, err := r.ReadString('\n')
		if at, _, ok := strings.Cut(line, " "); ok && strings.HasSuffix(strings.TrimSuffix(line, "\n"), removedMark) {
			h.add(filepath.Join(dir, "map_files", mapName(at)))
		}
		if err != nil {
			return some
		}
		some = true
	}
	return true
}

// mapName is how map_files calls a range of addresses: unlike maps it has no zeros
// in front of low ones.
func mapName(at string) string {
	from, to, _ := strings.Cut(at, "-")
	return strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0")
}

// add counts the file that a link of the kernel's stands for.
func (h *held) add(at string) {
	var st unix.Stat_t
	var on unix.Statfs_t
	if unix.Stat(at, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 || unix.Statfs(at, &on) != nil {
		return
	}
	switch int64(on.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return
	}
	id := [2]uint64{uint64(st.Dev), st.Ino}
	if _, known := h.seen[id]; !known {
		h.seen[id] = struct{}{}
		h.total += st.Blocks * 512
	}
}
