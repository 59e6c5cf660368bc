package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// loadedPrefix is the repository of images that were loaded from archives: the
// names in an archive are never given to the engine, which would move any tag
// of the node to it.
const loadedPrefix = "wardyn-load/"

// loadArchive loads the one image of an archive under a name of ours and
// returns its facts by id.
func (r *Runner) loadArchive(ctx context.Context, ref string, src runner.ImageSource) (imageFacts, error) {
	a, err := readArchive(src.Archive)
	if err != nil {
		return imageFacts{}, fmt.Errorf("load: %w: %w", runner.ErrInvalid, err)
	}
	if err := a.mustBe(ref); err != nil {
		return imageFacts{}, fmt.Errorf("load: %w: %w", runner.ErrInvalid, err)
	}
	name := loadedPrefix + strings.TrimPrefix(a.id, "sha256:")[:24] + ":1"
	src.Tell("Loading image %s from an archive", ref)
	limited, cancel := context.WithTimeout(ctx, cmp.Or(src.Timeout, r.opts.Images.pullTimeout()))
	defer cancel()
	pr, pw := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := a.write(pw, name)
		pw.CloseWithError(err)
		written <- err
	}()
	err = r.load(limited, pr)
	pr.CloseWithError(errors.New("the engine takes no more"))
	if werr := <-written; werr != nil && err != nil {
		return imageFacts{}, fmt.Errorf("load: %w: %w", runner.ErrInvalid, werr)
	}
	if err != nil {
		return imageFacts{}, err
	}
	if err := r.images.pulled(a.id, name); err != nil {
		return imageFacts{}, err
	}
	f, err := r.inspectImage(ctx, a.id)
	if err == nil && f.ID != a.id {
		err = fmt.Errorf("load: the archive's image is %s and the engine has %s", a.id, f.ID)
	}
	return f, err
}
