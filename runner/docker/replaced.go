package docker

import (
	"context"
	"errors"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// An image of ours that is made under the name of an earlier one takes that name
// from it. The earlier one has none then, and is removed once nobody runs it.

// Replaced are the ids of images of ours that have lost their name, and were made
// longer ago than age: an engine that is given an image has it for a moment
// without a name. Some may be in use.
func (r *Runner) Replaced(ctx context.Context, age time.Duration) (ids []string, err error) {
	ctx, cancel := call(ctx)
	defer cancel()
	found, err := r.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(
		filters.Arg("dangling", "true"),
		filters.Arg("label", labelInstance+"="+r.opts.Dir.Instance()),
		filters.Arg("label", labelComponent+"="+componentImage),
	)})
	for _, s := range found {
		if name := s.Labels[labelImage]; time.Since(time.Unix(s.Created, 0)) > age && ownImage(name) && r.owns(name, s.Labels) {
			ids = append(ids, s.ID)
		}
	}
	return ids, wrap("list images", err)
}

// DropReplaced removes those that no sandbox uses any more.
func (r *Runner) DropReplaced(ctx context.Context, age time.Duration) error {
	ids, err := r.Replaced(ctx, age)
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, r.dropNamelessOwn(ctx, id))
	}
	return errors.Join(errs...)
}

// dropNamelessOwn removes an image of ours that has no name, unless it is in use
// or about to be. One that is gone is nil.
func (r *Runner) dropNamelessOwn(ctx context.Context, id string) error {
	f, err := r.inspectImage(ctx, id)
	if err != nil {
		return goneIsNil(err)
	}
	name := f.Labels[labelImage]
	if len(f.Names) > 0 || !ownImage(name) || !r.owns(name, f.Labels) || r.gc.isWanted(id) {
		return nil
	}
	users, err := r.imageUsers(ctx)
	if err != nil || len(users[id]) > 0 {
		return err
	}
	c, cancel := call(ctx)
	defer cancel()
	_, err = r.api.ImageRemove(c, id, image.RemoveOptions{PruneChildren: true})
	if err = goneIsNil(wrap("remove image "+id, err)); errors.Is(err, runner.ErrExists) {
		return nil // it came into use meanwhile
	}
	return err
}
