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

// errTakesNoMore ends the writing of an archive that the engine has stopped
// reading, for a reason of its own.
var errTakesNoMore = errors.New("the engine takes no more")

// loadArchive loads the one image of an archive under a name of ours and
// returns its facts by id. Reading it counts against the pull's time limit: a
// small file can unpack to any size.
func (r *Runner) loadArchive(ctx context.Context, ref string, src runner.ImageSource) (imageFacts, error) {
	limit := cmp.Or(src.Timeout, r.opts.Images.pullTimeout())
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a, err := readArchive(readWithin{limited, src.Archive})
	if err == nil {
		err = a.mustBe(ref)
	}
	switch {
	case limited.Err() != nil:
		return imageFacts{}, fmt.Errorf("load: the archive was not read within %v (option image_pull_timeout): %w: %w", limit, runner.ErrUnavailable, limited.Err())
	case err != nil:
		return imageFacts{}, fmt.Errorf("load: %w: %w", runner.ErrInvalid, err)
	}
	name := loadedPrefix + strings.TrimPrefix(a.id, "sha256:")[:24] + ":1"
	src.Tell("Loading image %s from an archive", ref)
	if err := r.handOver(limited, a, name); err != nil {
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

// handOver gives an archive to the engine while it is checked. An archive that
// is not what it claims is at fault; otherwise the engine's word counts.
func (r *Runner) handOver(ctx context.Context, a *imageArchive, name string) error {
	pr, pw := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := a.write(pw, name)
		pw.CloseWithError(err)
		written <- err
	}()
	err := r.load(ctx, pr)
	pr.CloseWithError(errTakesNoMore)
	werr := <-written
	if err != nil && werr != nil && !errors.Is(werr, errTakesNoMore) && ctx.Err() == nil {
		return fmt.Errorf("load: %w: %w", runner.ErrInvalid, werr)
	}
	return err
}

// readWithin reads for as long as its context lasts.
type readWithin struct {
	ctx context.Context
	io.ReadSeeker
}

func (r readWithin) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReadSeeker.Read(b)
}
