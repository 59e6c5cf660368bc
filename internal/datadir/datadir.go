// Package datadir owns what this node's driver keeps between processes: its
// instance id, the secret that proves an engine object is ours, the records of
// runs, and each run's own directory.
//
// Two directories are involved. The data dir (plugin option data_dir) is on
// disk and lives as long as the installation. The run root is on tmpfs, holds
// one folder a run and everything secret about it, and is empty after a
// reboot, as the runs are.
package datadir

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// Default is the data dir of an installation that names none.
const Default = "/var/lib/wardyn"

// Dir is an opened data dir. It is safe for concurrent use, also by several
// processes.
type Dir struct {
	path     string
	runRoot  string
	instance string
	secret   []byte
}

// Open opens the data dir at path and makes it when it is missing. It refuses
// a path that is a link, is not a folder, belongs to someone else or may be
// written or read by others. The first Open mints instance id and secret.
func Open(path string) (*Dir, error) {
	if path == "" {
		path = Default
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, fmt.Errorf("data_dir %q: want an absolute, clean path", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("data_dir %q: %w", path, err)
	}
	if err := ownFolder(path); err != nil {
		return nil, fmt.Errorf("data_dir: %w", err)
	}
	d := &Dir{path: path}
	unlock, err := d.Lock("identity")
	if err != nil {
		return nil, err
	}
	defer unlock()
	id, err := d.token("instance", 4)
	if err != nil {
		return nil, err
	}
	secret, err := d.token("secret", 32)
	if err != nil {
		return nil, err
	}
	d.instance, d.secret = id, []byte(secret)
	d.runRoot = filepath.Join(tmpfsRoot(path), d.instance)
	for _, p := range []string{filepath.Dir(d.runRoot), d.runRoot, d.Path("runs")} {
		if err := ownFolder(p); err != nil {
			return nil, fmt.Errorf("run directory: %w", err)
		}
	}
	return d, nil
}

// Instance is this installation's random id, the value of the label
// wardyn.instance on every object it makes.
func (d *Dir) Instance() string { return d.instance }

// Path joins elements to the data dir.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// RunRoot is the tmpfs folder that holds the run directories.
func (d *Dir) RunRoot() string { return d.runRoot }

// Shared is a folder of that name on the run root's tmpfs that all installations
// of this node share. [MakeShared] makes it.
func (d *Dir) Shared(name string) string { return filepath.Join(filepath.Dir(d.runRoot), name) }

// MakeShared makes a folder of [Dir.Shared], root-only.
func MakeShared(path string) error {
	for _, p := range []string{filepath.Dir(path), path} {
		if err := ownFolder(p); err != nil {
			return fmt.Errorf("shared directory: %w", err)
		}
	}
	return nil
}

// CheckShared refuses a folder that others could write in, or that is not there.
func CheckShared(path string) error {
	return errors.Join(checkOwn(filepath.Dir(path)), checkOwn(path))
}

// Proof is a keyed digest of an engine object's name. Without the node's
// secret nobody can make a container that passes for ours.
func (d *Dir) Proof(name string) string {
	m := hmac.New(sha256.New, d.secret)
	m.Write([]byte(name))
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// ProofHolds reports whether proof is Proof(name).
func (d *Dir) ProofHolds(name, proof string) bool {
	return hmac.Equal([]byte(d.Proof(name)), []byte(proof))
}

// RunDir is the folder of one run on tmpfs. MakeRunDir makes it.
func (d *Dir) RunDir(run uuid.UUID) string { return filepath.Join(d.runRoot, run.String()) }

// MakeRunDir makes a run's folder, root-only, with the named subfolders.
func (d *Dir) MakeRunDir(run uuid.UUID, sub ...string) (string, error) {
	p := d.RunDir(run)
	for _, s := range append([]string{""}, sub...) {
		if err := ownFolder(filepath.Join(p, s)); err != nil {
			return "", fmt.Errorf("run directory: %w", err)
		}
	}
	return p, nil
}

// RemoveRunDir removes a run's folder; a missing one is nil.
func (d *Dir) RemoveRunDir(run uuid.UUID) error { return os.RemoveAll(d.RunDir(run)) }

// RemoveRunRoot removes the run root when no run is left in it: for processes
// whose data dir is as short-lived as they are.
func (d *Dir) RemoveRunRoot() error {
	if err := os.Remove(d.runRoot); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The parent is shared by instances; it goes with the last of them.
	_ = os.Remove(filepath.Dir(d.runRoot))
	return nil
}

// Lock takes an exclusive lock named name, waiting for other processes.
func (d *Dir) Lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(d.Path(name+".lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}

// WriteFile replaces a file below the data dir or a run directory in one step,
// root-only.
func WriteFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(data); err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}

// token reads a hex token of n random bytes from file, minting it once.
func (d *Dir) token(file string, n int) (string, error) {
	p := d.Path(file)
	b, err := os.ReadFile(p)
	if err == nil {
		s := strings.TrimSpace(string(b))
		if raw, err := hex.DecodeString(s); err != nil || len(raw) != n {
			return "", fmt.Errorf("%s: not a token of this driver; remove the file to mint a new one (running tasks will no longer be recognised)", p)
		}
		return s, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	raw := make([]byte, n)
	rand.Read(raw)
	s := hex.EncodeToString(raw)
	return s, WriteFile(p, []byte(s+"\n"))
}

// ownFolder makes path root-only, or checks that it is a folder of ours that
// nobody else may enter.
func ownFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkOwn(path)
}

// checkOwn refuses what is no folder of ours that nobody else may enter.
func checkOwn(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link; name the folder it points to", path)
	case !fi.IsDir():
		return fmt.Errorf("%s is not a folder", path)
	case ok && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, not to uid %d that runs the driver", path, st.Uid, os.Geteuid())
	case fi.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s has mode %04o; others must have no access: chmod 700 %s", path, fi.Mode().Perm(), path)
	}
	return nil
}

// tmpfsRoot picks where run directories live: the first tmpfs of the usual
// ones, else below the data dir itself.
func tmpfsRoot(dataDir string) string {
	for _, p := range []string{"/run", "/dev/shm"} {
		var st unix.Statfs_t
		if unix.Statfs(p, &st) == nil && st.Type == unix.TMPFS_MAGIC {
			return filepath.Join(p, "wardyn")
		}
	}
	return filepath.Join(dataDir, "run")
}
