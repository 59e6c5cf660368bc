package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// pullInactivity ends a pull that has stood still for that long. A pull as
// such has no deadline: images are as large as they are.
const pullInactivity = 2 * time.Minute

// imageFacts is what an image says about how it wants to be run.
type imageFacts struct {
	ID              string
	Arch, OS        string
	Entrypoint, Cmd []string
	User, WorkDir   string
	StopSignal      string
	Labels          map[string]string
}

func imageFactsOf(i image.InspectResponse) imageFacts {
	f := imageFacts{ID: i.ID, Arch: i.Architecture, OS: i.Os}
	if c := i.Config; c != nil {
		f.Entrypoint, f.Cmd = c.Entrypoint, c.Cmd
		f.User, f.WorkDir, f.StopSignal, f.Labels = c.User, c.WorkingDir, c.StopSignal, c.Labels
	}
	return f
}

// ImagePresent reports whether ref, a tag, a digest or an id, is in the
// engine's store right now.
func (r *Runner) ImagePresent(ctx context.Context, ref string) (bool, error) {
	_, err := r.inspectImage(ctx, ref)
	if errors.Is(err, runner.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// ImageRemove removes ref from the engine's store; an absent one is nil.
func (r *Runner) ImageRemove(ctx context.Context, ref string) error {
	ctx, cancel := call(ctx)
	defer cancel()
	_, err := r.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	return goneIsNil(wrap("remove image "+ref, err))
}

func (r *Runner) inspectImage(ctx context.Context, ref string) (imageFacts, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	i, err := r.api.ImageInspect(ctx, ref)
	if err != nil {
		return imageFacts{}, wrap("image "+ref, err)
	}
	return imageFactsOf(i), nil
}

// ensureImage is the image's facts, after a pull where it is not present.
// Presence is asked by inspect, which knows digests as well as tags.
func (r *Runner) ensureImage(ctx context.Context, ref string) (imageFacts, error) {
	f, err := r.inspectImage(ctx, ref)
	if !errors.Is(err, runner.ErrNotFound) {
		return f, err
	}
	if err := r.Pull(ctx, ref); err != nil {
		return imageFacts{}, err
	}
	return r.inspectImage(ctx, ref)
}

// Pull fetches an image. Callers that want the same one share one pull, which
// goes on when one of them gives up.
func (r *Runner) Pull(ctx context.Context, ref string) error {
	done := r.pulls.DoChan(ref, func() (any, error) {
		return nil, r.pull(context.WithoutCancel(ctx), ref)
	})
	select {
	case res := <-done:
		return res.Err
	case <-ctx.Done():
		return fmt.Errorf("pull %s: %w", ref, ctx.Err())
	}
}

// pull runs until the engine is done or has said nothing for pullInactivity.
func (r *Runner) pull(ctx context.Context, ref string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := fmt.Errorf("no progress for %v: %w", pullInactivity, runner.ErrUnavailable)
	watch := time.AfterFunc(pullInactivity, func() { cancel(stalled) })
	defer watch.Stop()
	rc, err := r.api.ImagePull(ctx, ref, image.PullOptions{})
	if err == nil {
		defer rc.Close()
		err = followPull(rc, func() { watch.Reset(pullInactivity) })
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, stalled) {
		err = cause
	}
	return wrap("pull "+ref, err)
}

// followPull reads the engine's progress messages; the last word may be an error.
func followPull(r io.Reader, progress func()) error {
	d := json.NewDecoder(r)
	for {
		var m struct {
			Error       string `json:"error"`
			ErrorDetail struct {
				Message string `json:"message"`
			} `json:"errorDetail"`
		}
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if text := firstOf(m.ErrorDetail.Message, m.Error); text != "" {
			return errors.New(text)
		}
		progress()
	}
}
