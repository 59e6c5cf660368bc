package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lock waits for the lock file and holds it. unlock removes the file, so a
// lock taken on a file that is gone by then is taken anew.
func lock(path string) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		for {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		mine, merr := f.Stat()
		there, terr := os.Lstat(path)
		if merr == nil && terr == nil && os.SameFile(mine, there) {
			return func() { os.Remove(path); f.Close() }, nil
		}
		f.Close()
	}
}

// clearDead reports whether no keeper serves the socket, and removes what one
// that was killed has left there.
func clearDead(socket string) (gone bool, err error) {
	f, err := os.OpenFile(socket+".lock", os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("keeper: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("keeper: lock: %w", err)
	}
	// The lock's holder has ended. One that starts now waits for it.
	for _, path := range []string{socket, socket + ".lock"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("keeper: %w", err)
		}
	}
	return true, nil
}
