package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"archive/tar"

	"github.com/containerd/errdefs"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// I8, K30: an engine that cannot be asked says nothing against the archive, and
// an archive that is not what it claims is nobody else's fault.
func TestI8LoadBlamesWhoIsAtFault(t *testing.T) {
	good := madeArchive{images: 1, claims: []byte("a layer"), layer: []byte("a layer")}
	bad := madeArchive{images: 1, claims: []byte("of another image"), layer: []byte("a layer")}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx     context.Context
		archive madeArchive
		engine  error
		want    error
		never   error
	}{
		"engine away":     {t.Context(), good, fmt.Errorf("dial: %w", errdefs.ErrUnavailable), runner.ErrUnavailable, runner.ErrInvalid},
		"borrowed layer":  {t.Context(), bad, nil, runner.ErrInvalid, runner.ErrUnavailable},
		"no time to read": {over, good, nil, runner.ErrUnavailable, runner.ErrInvalid},
	} {
		w := newFakeWorld(t)
		w.engine.before = func(_ int, call string) error {
			if call == "ImageLoad" {
				return c.engine
			}
			return nil
		}
		text, _ := c.archive.bytes(t)
		_, err := w.loadArchive(c.ctx, "mine:1", runner.ImageSource{Archive: bytes.NewReader(text)})
		if !errors.Is(err, c.want) || errors.Is(err, c.never) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
}

// A sandbox that writes to the volume can put a pipe where a file was listed.
func TestExportWaitsForNoPipe(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "f")), syscall.Mkfifo(filepath.Join(dir, "f"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var b bytes.Buffer
	if err := exportEntry(tar.NewWriter(&b), root, "f", fs.DirEntry(entries[0])); err != nil || b.Len() > 0 {
		t.Errorf("%v, and %d bytes of archive", err, b.Len())
	}
}
