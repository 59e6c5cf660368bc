package taskpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth is how many folders deep a tree is measured. One stays open for
	// each, and whoever fills the tree says how deep it is.
	maxDepth = 256
	// maxLinked bounds how many files with several names are remembered, to
	// count each once.
	maxLinked = 1 << 20
	// leastFile is what a file counts at least. One without contents takes a
	// place in a file system that has so many, and fills it as well as bytes do.
	leastFile = 4 << 10
)

// ErrTooDeep: part of a tree lies deeper than it is measured.
var ErrTooDeep = fmt.Errorf("it has folders more than %d deep, and what is below was not counted", maxDepth)

// TreeSize adds up what the files below dir take on disk, in bytes and each at
// least leastFile, but for
// what is called skip right below it ("" is nothing). Each folder is opened
// beneath the one that it was found in and through no link, so who can write
// there leads it nowhere else. What vanishes meanwhile counts nothing. With an
// error the sum is of what could be measured until ctx was over, or in spite of
// ErrTooDeep.
func TreeSize(ctx context.Context, dir, skip string) (int64, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", dir, explain(err))
	}
	m := measure{ctx: ctx, skip: skip, linked: map[inode]struct{}{}}
	err = m.folder(os.NewFile(uintptr(fd), dir), 0)
	if err == nil && m.deep {
		err = ErrTooDeep
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return m.total, err
}

// measure is one measurement under way.
type measure struct {
	ctx    context.Context
	skip   string
	total  int64
	linked map[inode]struct{}
	deep   bool
}

type inode struct{ dev, ino uint64 }

// folder adds what is in an open folder, and closes it.
func (m *measure) folder(f *os.File, depth int) error {
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			if err := m.entry(f, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err != nil && m.ctx.Err() == nil {
			return nil // the end, or a folder that is gone
		}
		if err != nil {
			return err
		}
	}
}

// entry adds one file; its error is that of m.ctx.
func (m *measure) entry(parent *os.File, name string, depth int) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	if depth == 0 && name == m.skip {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		m.add(st)
		return nil
	}
	m.total += sizeOf(st)
	if depth+1 >= maxDepth {
		m.deep = true
		return nil
	}
	fd, err := unix.Openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return m.folder(os.NewFile(uintptr(fd), name), depth+1)
}

// add counts a file, once of those that have several names.
func (m *measure) add(st unix.Stat_t) {
	if st.Nlink > 1 && len(m.linked) < maxLinked {
		id := inode{st.Dev, st.Ino}
		if _, known := m.linked[id]; known {
			return
		}
		m.linked[id] = struct{}{}
	}
	m.total += sizeOf(st)
}

func sizeOf(st unix.Stat_t) int64 { return max(st.Blocks*512, leastFile) }
