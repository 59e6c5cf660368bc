package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Labels of images that sandboxes were made into.
const (
	labelBase      = "wardyn.base" // id of the image the sandbox ran
	labelNamespace = "wardyn.namespace"
	componentImage = "image"
)

// ownRepositories hold the images that this driver makes, and no others.
var ownRepositories = []string{"wardyn-snap", "rainier-env"}

// ownImage reports whether a name belongs to the images that we make.
func ownImage(ref string) bool {
	return slices.ContainsFunc(ownRepositories, func(r string) bool {
		return ref == r || strings.HasPrefix(ref, r+"/") || strings.HasPrefix(ref, r+":")
	})
}

// untagged is a name without the tag that it has when it names none: the proof
// that an image is ours is made for that.
func untagged(ref string) string { return strings.TrimSuffix(ref, ":latest") }

// ensureOwn is the facts of an image that we made. It is never pulled, since
// somebody else's may have that name in a registry, and one that was put under
// its name is refused.
func (r *Runner) ensureOwn(ctx context.Context, ref string, labels map[string]string) (imageFacts, error) {
	ref = untagged(ref)
	f, err := r.inspectImage(ctx, ref)
	switch {
	case errors.Is(err, runner.ErrNotFound):
		return f, fmt.Errorf("image %s: there is none of this name on the node: %w", ref, err)
	case err != nil:
		return f, err
	case !r.owns(ref, f.Labels) || f.Labels[labelNamespace] != labels[labelNamespace]:
		return f, fmt.Errorf("image %s was not made by this instance for namespace %q: %w", ref, labels[labelNamespace], runner.ErrDenied)
	}
	return f, nil
}

// ListOwnImages returns the images that this instance made of sandboxes.
func (r *Runner) ListOwnImages(ctx context.Context) ([]runner.Image, error) {
	c, cancel := call(ctx)
	defer cancel()
	found, err := r.api.ImageList(c, image.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", labelInstance+"="+r.opts.Dir.Instance()),
		filters.Arg("label", labelComponent+"="+componentImage),
	)})
	if err != nil {
		return nil, wrap("list images", err)
	}
	users, err := r.imageUsers(ctx)
	if err != nil {
		return nil, err
	}
	var out []runner.Image
	for _, s := range found {
		for _, tag := range s.RepoTags {
			ref := untagged(tag)
			if !ownImage(ref) || !r.owns(ref, s.Labels) {
				continue
			}
			out = append(out, r.ownSize(ctx, s, ref, users))
		}
	}
	return out, nil
}

// RemoveOwnImage removes an image that this instance made; an absent one is
// nil, one in use an error.
func (r *Runner) RemoveOwnImage(ctx context.Context, ref string) error {
	f, err := r.inspectImage(ctx, ref)
	if err != nil {
		return goneIsNil(err)
	}
	if !ownImage(ref) || !r.owns(ref, f.Labels) {
		return fmt.Errorf("image %s was not made by this instance and is left alone: %w", ref, runner.ErrDenied)
	}
	users, err := r.imageUsers(ctx)
	if err != nil {
		return err
	}
	if u := users[f.ID]; len(u) > 0 {
		return fmt.Errorf("image %s is in use by %s: %w", ref, strings.Join(u, ", "), runner.ErrPrecondition)
	}
	ctx, cancel := layers(ctx)
	defer cancel()
	_, err = r.api.ImageRemove(ctx, withTag(ref), image.RemoveOptions{PruneChildren: true})
	if err = goneIsNil(wrap("remove image "+ref, err)); err == nil {
		os.Remove(r.usePath(ref)) // a note without its image says nothing
	}
	return err
}
