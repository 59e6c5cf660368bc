// Package embedded carries the two static binaries that run beside and inside
// a sandbox, so that an operator installs one file. It lays them out on the
// node at content-addressed paths and packs them into an image archive.
package embedded

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// The folder holds at least its README, so that this builds before make has
// put the binaries in.
//
//go:embed bin
var files embed.FS

// Names of the binaries, in the folder and in the image.
const (
	ProxyName    = "wardyn-proxy"
	RecorderName = "wardyn-rec"
)

// ErrMissing: this build carries no binaries.
var ErrMissing = errors.New("built without its embedded binaries; build with make")

// Tools lays the binaries out below a folder. It is safe for concurrent use.
type Tools struct {
	dir   string
	files fs.FS

	once  sync.Once
	image []byte
	id    string
	err   error
}

// New returns Tools that keeps its files below dir (root-only).
func New(dir string) *Tools { return &Tools{dir: dir, files: files} }

// RecorderPath is the host path of wardyn-rec. A file once written is never
// changed: running sandboxes have it mounted.
func (t *Tools) RecorderPath() (string, error) {
	b, err := t.read(RecorderName)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	dir := filepath.Join(t.dir, hex.EncodeToString(sum[:]))
	path := filepath.Join(dir, RecorderName)
	if have, err := os.ReadFile(path); err == nil && sha256.Sum256(have) == sum {
		return path, nil
	}
	// The folder must be enterable by any user of a sandbox: the bind is of
	// the file, whose own mode decides.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("lay out %s: %w", RecorderName, err)
	}
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return "", fmt.Errorf("lay out %s: %w", RecorderName, err)
	}
	defer os.Remove(tmp.Name())
	_, werr := tmp.Write(b)
	if err := errors.Join(werr, tmp.Chmod(0o555), tmp.Close()); err != nil {
		return "", fmt.Errorf("lay out %s: %w", RecorderName, err)
	}
	return path, os.Rename(tmp.Name(), path)
}

// Image is an archive in docker-load format holding both binaries, and the id
// it loads as. Equal binaries give equal bytes.
func (t *Tools) Image() ([]byte, string, error) {
	t.once.Do(func() {
		var contents []file
		for _, name := range []string{ProxyName, RecorderName} {
			b, err := t.read(name)
			if err != nil {
				t.err = err
				return
			}
			contents = append(contents, file{name, b})
		}
		t.image, t.id, t.err = pack(contents)
	})
	return t.image, t.id, t.err
}

func (t *Tools) read(name string) ([]byte, error) {
	b, err := fs.ReadFile(t.files, "bin/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrMissing)
	}
	return b, err
}

// NewFrom is New with the binaries taken from fsys, below "bin/": for tests
// that build their own.
func NewFrom(dir string, fsys fs.FS) *Tools { return &Tools{dir: dir, files: fsys} }
