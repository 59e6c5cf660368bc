package taskpath

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Dirs names the folders that Nomad's client lays out for one task.
type Dirs struct {
	Alloc string // the allocation's folder on the host
	Name  string // the task's name
}

// Task is the task's own folder.
func (d Dirs) Task() string { return filepath.Join(d.Alloc, d.Name) }

// Shared is the folder that all tasks of the allocation share.
func (d Dirs) Shared() string { return filepath.Join(d.Alloc, "alloc") }

// Local is the task's own folder that its sandbox sees.
func (d Dirs) Local() string { return filepath.Join(d.Task(), "local") }

// Secrets is the task's folder of secrets; a sandbox sees it where job and
// operator say so.
func (d Dirs) Secrets() string { return filepath.Join(d.Task(), "secrets") }

// resolve is how every path of a job is looked up.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// Open opens a source, as a handle that can be staged but neither read nor
// written. With create, a source that does not exist is made as a folder that
// everyone may write to, as Nomad makes local/: only the image knows the
// task's user. Links and anything but folders and regular files are refused.
func (d Dirs) Open(s Source, create bool) (*os.File, error) {
	base := d.Task()
	if s.Shared {
		base = d.Shared()
	}
	root, err := openBase(base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openBeneath(root, s.Path)
	if create && errors.Is(err, unix.ENOENT) {
		if err = makeFolder(root, s.Path); err == nil {
			f, err = openBeneath(root, s.Path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("source %q: %w", s, explain(err))
	}
	if err := plain(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("source %q: %w", s, err)
	}
	return f, nil
}

// OpenHost opens a folder or file of the host's as Open does: through no link,
// since others than the operator may be able to write on its way.
func OpenHost(path string) (*os.File, error) {
	root, err := openBase("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openBeneath(root, strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, explain(err))
	}
	if err := plain(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// OpenFile opens a regular file of a job's for reading, as Open does.
func (d Dirs) OpenFile(s Source) (*os.File, error) {
	handle, err := d.Open(s, false)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	if fi, err := handle.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("source %q is no file", s), err)
	}
	// The handle can neither be read nor replaced; its own name leads to the
	// same file.
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(handle.Fd())))
	if err != nil {
		return nil, fmt.Errorf("source %q: %w", s, err)
	}
	return f, nil
}

// Check tells whether path, one of the folders above, is a real folder and no
// link to one.
func Check(path string) error {
	f, err := openBase(path)
	if err != nil {
		return err
	}
	return f.Close()
}

func openBase(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, explain(err))
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openBeneath(root *os.File, rel string) (*os.File, error) {
	fd, err := openat2(root, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// openat2 looks up again when the tree changed under it.
func openat2(root *os.File, rel string, how *unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(int(root.Fd()), rel, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// makeFolder makes what is missing of rel, one element at a time, each time
// through a look-up that follows no link.
func makeFolder(root *os.File, rel string) error {
	made := ""
	for elem := range strings.SplitSeq(rel, "/") {
		parent, err := openBeneath(root, path.Join(".", made))
		if err != nil {
			return err
		}
		err = unix.Mkdirat(int(parent.Fd()), elem, 0o777)
		if err == nil {
			err = openUp(parent, elem)
		}
		parent.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		made = path.Join(made, elem)
	}
	return nil
}

// openUp gives a folder that was just made its mode again, without the process's
// umask. Somebody who may write in parent can have put a link in its place by
// now, so the mode is that of what was opened and never of a name.
func openUp(parent *os.File, elem string) error {
	fd, err := openat2(parent, elem, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, 0o777)
}

func plain(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFREG:
		return nil
	}
	return errors.New("is neither a folder nor a regular file")
}

// explain puts the kernel's refusals into words.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("a symbolic link is on the way, which is not followed: %w", err)
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("it leaves the task directory: %w", err)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("a part of it is not a folder: %w", err)
	}
	return err
}
