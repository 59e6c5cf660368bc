package taskpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OpenRecords opens the folder for people's files, making it when wanted. A
// job may have planted something in its place, so it must be a real folder,
// ours, and closed to everyone else.
func OpenRecords(dir string, create bool) (*os.Root, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("folder %q: want an absolute path", dir)
	}
	if create {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := ownFolder(dir, root); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// ownFolder judges the folder that was opened; its name must be no link to it.
func ownFolder(dir string, root *os.Root) error {
	named, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	fi, err := root.Stat(".")
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !os.SameFile(named, fi):
		return fmt.Errorf("%s is a link; the driver's own folder belongs there", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to someone else; the driver's own folder belongs there", dir)
	case fi.Mode().Perm() != 0o700:
		return fmt.Errorf("%s has mode %04o, want 0700", dir, fi.Mode().Perm())
	}
	return nil
}

// OpenRecord opens a regular file of one name in the folder. Anything else there
// is refused, without waiting for what may be a pipe.
func OpenRecord(root *os.Root, name string, flags int) (*os.File, error) {
	f, err := root.OpenFile(name, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	named, err := root.Lstat(name)
	st, ok := fi.Sys().(*syscall.Stat_t)
	if err != nil || !ok || !fi.Mode().IsRegular() || !os.SameFile(named, fi) || st.Nlink != 1 {
		f.Close()
		return nil, errors.Join(fmt.Errorf("%s is not a plain file of the driver's", filepath.Join(root.Name(), name)), err)
	}
	return f, nil
}
