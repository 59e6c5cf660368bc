package taskpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OwnName is the folder in the task's directory that is the driver's: records
// for people, readable with "nomad alloc fs", out of reach of the sandbox.
const OwnName = "wardyn"

// Own is the path of the driver's folder; see MakeOwn.
func (d Dirs) Own() string { return filepath.Join(d.Task(), OwnName) }

// MakeOwn makes the driver's folder in the task's directory, or checks the one
// that is there: a real folder, of this process's user, closed to everyone
// else. A job could have planted it by an artifact.
func (d Dirs) MakeOwn() (string, error) {
	p := d.Own()
	if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	fi, err := os.Lstat(p)
	if err != nil {
		return "", err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !fi.IsDir():
		return "", fmt.Errorf("%s: something else than a folder stands where the driver keeps its records", p)
	case !ok || int(st.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s: belongs to someone else; the driver's records cannot be kept there", p)
	case fi.Mode().Perm() != 0o700:
		return "", fmt.Errorf("%s: has mode %04o, want 0700; the driver's records cannot be kept there", p, fi.Mode().Perm())
	}
	return p, nil
}
