package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// imageFacts is what an image says about how it wants to be run.
type imageFacts struct {
	ID              string
	Arch, OS        string
	Entrypoint, Cmd []string
	User, WorkDir   string
	StopSignal      string
	Env             []string
	Labels          map[string]string
	Volumes         []string // places it declares volumes at
	Names           []string // tags, and names with digests
	Layers          []string // folders of its layers; see layersOf
}

func imageFactsOf(i image.InspectResponse) imageFacts {
	f := imageFacts{ID: i.ID, Arch: i.Architecture, OS: i.Os, Names: slices.Concat(i.RepoTags, i.RepoDigests)}
	f.Layers = layersOf(i.GraphDriver.Name, i.GraphDriver.Data)
	if c := i.Config; c != nil {
		f.Entrypoint, f.Cmd, f.Env = c.Entrypoint, c.Cmd, c.Env
		f.User, f.WorkDir, f.StopSignal, f.Labels = c.User, c.WorkingDir, c.StopSignal, c.Labels
		f.Volumes = slices.Sorted(maps.Keys(c.Volumes))
	}
	return f
}

// named reports whether ref is a name of the image, and not its id or the
// beginning of it, by which a job would reach images of others.
func (f imageFacts) named(ref string) bool {
	want, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return false
	}
	want = reference.TagNameOnly(want)
	return slices.ContainsFunc(f.Names, func(n string) bool {
		have, err := reference.ParseNormalizedNamed(n)
		if err != nil || have.Name() != want.Name() {
			return false
		}
		if d, ok := want.(reference.Digested); ok {
			h, ok := have.(reference.Digested)
			return ok && h.Digest() == d.Digest()
		}
		return have.String() == want.String()
	})
}

// digestOf is the image's name with the digest that the registry of ref knows
// it by; "" for an image that did not come from there.
func (f imageFacts) digestOf(ref string) string {
	want, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ""
	}
	for _, n := range f.Names {
		have, err := reference.ParseNormalizedNamed(n)
		if _, ok := have.(reference.Digested); err == nil && ok && have.Name() == want.Name() {
			return n
		}
	}
	return ""
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
	ctx, cancel := layers(ctx)
	defer cancel()
	_, err := r.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	return goneIsNil(wrap("remove image "+ref, err))
}

func (r *Runner) inspectImage(ctx context.Context, ref string) (imageFacts, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	i, err := r.api.ImageInspect(ctx, ref)
	if err != nil {
		return imageFacts{}, explained(wrap("image "+ref, err), asked{image: ref}, nameWords)
	}
	if i.ID == "" {
		return imageFacts{}, incomplete("image " + ref)
	}
	return imageFactsOf(i), nil
}

// ensureImage is the image's facts: loaded from the task's archive, pulled
// where it is absent or is to be asked for always, else as it is present.
// Presence is asked by inspect, which knows digests as well as tags.
func (r *Runner) ensureImage(ctx context.Context, ref string, src runner.ImageSource) (imageFacts, error) {
	if src.Archive != nil {
		return r.loadArchive(ctx, ref, src)
	}
	f, err := r.inspectImage(ctx, ref)
	absent := errors.Is(err, runner.ErrNotFound)
	if err != nil && !absent {
		return imageFacts{}, err
	}
	if !absent && !src.Always {
		if !f.named(ref) {
			return imageFacts{}, fmt.Errorf("image %q is the id of an image and no name; write a tag or a digest: %w", ref, runner.ErrInvalid)
		}
		return f, r.admit(ctx, ref, f, src)
	}
	if err := r.pullFor(ctx, ref, src); err != nil {
		return imageFacts{}, err
	}
	fresh, err := r.inspectImage(ctx, ref)
	if err == nil && fresh.ID != f.ID {
		err = r.images.pulled(fresh.ID, ref)
	}
	return fresh, err
}
