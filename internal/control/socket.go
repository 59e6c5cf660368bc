package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// longestSocket is what the kernel takes as a socket's path.
const longestSocket = 107

// listen opens a socket in dir, which uid alone may enter and use; its parents
// are root's. A folder that is there is kept, since a sidecar may have it
// mounted, and a socket in it that nobody serves any more is replaced.
func listen(dir, name, network string, uid int) (*net.UnixListener, error) {
	path := filepath.Join(dir, name)
	if len(path) > longestSocket {
		return nil, fmt.Errorf("control socket: path %q has %d bytes and a socket's may have %d; choose a shorter data_dir", path, len(path), longestSocket)
	}
	if err := socketFolder(dir); err != nil {
		return nil, err
	}
	if err := ignoreMissing(os.Remove(path)); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// The next process replaces the file; a sidecar that finds none waits alike.
	l.SetUnlinkOnClose(false)
	for _, step := range []error{
		os.Chmod(path, 0o600), os.Lchown(path, uid, uid), os.Lchown(dir, uid, uid),
	} {
		if step != nil {
			l.Close()
			os.Remove(path)
			return nil, fmt.Errorf("control socket: %w", step)
		}
	}
	return l, nil
}

// socketFolder makes dir, or checks that it is a folder nobody else may enter.
// Its owner is the sidecar's user, so datadir's check does not fit.
func socketFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !fi.IsDir() || fi.Mode().Perm() != 0o700 || !ok {
		return fmt.Errorf("control socket: %s is not the folder it should be (mode %v, uid %d)", dir, fi.Mode(), st.Uid)
	}
	return nil
}
