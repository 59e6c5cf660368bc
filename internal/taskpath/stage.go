package taskpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Stage binds what f refers to onto dir/name and returns that path, which
// stays right whatever happens to the place f was opened at. dir is made,
// root-only; it must be a folder that nothing removes recursively, because
// what is bound there would go too. Undo it with [Unstage].
func Stage(dir, name string, f *os.File) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("stage: %w", err)
	}
	fi, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("stage: %w", err)
	}
	target := filepath.Join(dir, name)
	if fi.IsDir() {
		err = os.Mkdir(target, 0o700)
	} else {
		err = os.WriteFile(target, nil, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("stage: %w", err)
	}
	source := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		os.Remove(target)
		return "", fmt.Errorf("stage %s: bind mount: %w", f.Name(), err)
	}
	return target, nil
}

// Unstage undoes every Stage below dir and removes dir. A dir that is not
// there is nil. What was bound is left as it is: nothing is removed but empty
// mount points.
func Unstage(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unstage: %w", err)
	}
	var errs []error
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if err := unmountAll(p); err != nil {
			errs = append(errs, fmt.Errorf("unstage %s: %w", p, err))
			continue
		}
		// Remove takes an empty folder or a file, never a tree.
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("unstage: %w", err))
		}
	}
	if len(errs) == 0 {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("unstage: %w", err))
		}
	}
	return errors.Join(errs...)
}

// unmountAll takes away every mount at p. The kernel answers EINVAL when none
// is left.
func unmountAll(p string) error {
	for {
		err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil:
			continue
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		}
		return err
	}
}
