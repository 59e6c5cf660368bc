package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// toolLoads bounds how often the tools image is loaded that is gone again when
// it is looked at: other installations on the engine remove theirs, which may be
// the same.
const toolLoads = 3

// toolImage makes sure that the image with our two binaries is on the engine
// and returns its id. It is always used by id: a tag could be moved to another
// image by anyone who loads an archive.
func (r *Runner) toolImage(ctx context.Context) (string, error) {
	archive, id, err := r.opts.Tools.Image()
	if err != nil {
		return "", fmt.Errorf("tools image: %w", err)
	}
	f, err := r.inspectImage(ctx, id)
	for n := 0; n < toolLoads && errors.Is(err, runner.ErrNotFound); n++ {
		if err := r.loadImage(ctx, archive); err != nil {
			return "", fmt.Errorf("tools image: %w", err)
		}
		f, err = r.inspectImage(ctx, id)
	}
	if err != nil {
		return "", fmt.Errorf("tools image: %w", err)
	}
	if f.ID != id {
		return "", fmt.Errorf("tools image: asked for %s and the engine answers with %s", id, f.ID)
	}
	return id, nil
}

// RemoveToolImage takes the tools image off the engine, for an installation
// that ends. One that another installation uses stays, and one that is missing
// is nil.
func (r *Runner) RemoveToolImage(ctx context.Context) error {
	_, id, err := r.opts.Tools.Image()
	if err != nil {
		return fmt.Errorf("tools image: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout) // as dropStep: nobody but purge waits for it
	defer cancel()
	_, err = r.api.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
	err = wrap("tools image", err)
	if errors.Is(err, runner.ErrNotFound) || errors.Is(err, runner.ErrExists) {
		return nil
	}
	return err
}

func (r *Runner) loadImage(ctx context.Context, archive []byte) error {
	ctx, cancel := layers(ctx)
	defer cancel()
	return r.load(ctx, bytes.NewReader(archive))
}

// load gives an archive to the engine.
func (r *Runner) load(ctx context.Context, archive io.Reader) error {
	resp, err := r.api.ImageLoad(ctx, archive)
	if err != nil {
		return wrap("load", err)
	}
	defer resp.Body.Close()
	if !resp.JSON {
		_, err := io.Copy(io.Discard, resp.Body)
		return wrap("load", err)
	}
	return wrap("load", followPull(resp.Body, func(pullMessage) {}))
}
