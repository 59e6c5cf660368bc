package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// commitTimeout bounds the writing of a layer, which can be large.
const commitTimeout = 10 * time.Minute

// Commit makes an image of a sandbox's file system under exactly this tag.
//
// The image's configuration is the base image's and nothing of the sandbox's,
// which an engine would keep in several places: each variable of blankEnv is
// there and empty, and no value of the sandbox's environment is anywhere in
// the image's metadata. Volumes, other mounts and /tmp, which is in memory, are
// no part of it.
func (r *Runner) Commit(ctx context.Context, ref, tag string, blankEnv []string) (string, error) {
	c, err := r.look(ctx, ref)
	if err != nil {
		return "", err
	}
	tag = untagged(tag)
	if !ownImage(tag) {
		return "", fmt.Errorf("snapshot %q: %w: want a name that begins with one of %s", tag, runner.ErrInvalid, strings.Join(ownRepositories, ", "))
	}
	if err := r.Committable(ctx, ref); err != nil {
		return "", err
	}
	base, err := r.inspectFull(ctx, c.Image)
	if err != nil {
		return "", fmt.Errorf("snapshot of %s: its base image: %w", ref, err)
	}
	cctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	run, err := RunOf(c.Name)
	if err != nil {
		return "", err
	}
	mark, err := r.markCommit(run)
	if err != nil {
		return "", fmt.Errorf("snapshot of %s: %w", ref, err)
	}
	made, err := r.api.ContainerCommit(cctx, c.ID, container.CommitOptions{Pause: c.State.Running && !c.State.Paused})
	if err != nil {
		if err = refused("snapshot of "+ref, err); answered(err) {
			err = errors.Join(err, mark.done())
		}
		return "", err
	}
	err = errors.Join(mark.made(made.ID), r.rewrite(ctx, made.ID, tag, base, blankEnv, c.Config.Labels))
	if derr := r.dropStep(made.ID); derr != nil {
		return tag, errors.Join(err, derr)
	}
	return tag, errors.Join(err, mark.done())
}

// rewrite loads the committed layers again under a configuration of our own.
func (r *Runner) rewrite(ctx context.Context, id, tag string, base image.InspectResponse, blankEnv []string, sandbox map[string]string) error {
	made, err := r.inspectFull(ctx, id)
	if err != nil {
		return err
	}
	labels := r.reserved(tag, componentImage)
	labels[labelBase], labels[labelNamespace], labels[labelImage] = base.ID, sandbox[labelNamespace], tag
	archive, want, err := configOnly(tag, made, base, blankEnv, labels)
	if err != nil {
		return err
	}
	replaced, err := r.nameImage(ctx, tag, archive, want)
	if err != nil || replaced == "" {
		return err
	}
	if err := r.dropNamelessOwn(ctx, replaced); err != nil {
		r.opts.Log.Warn("an image that was replaced stays for now", "image", tag, "id", replaced, "error", err)
	}
	return nil
}

// nameImage loads an archive that makes the image want under a name, and tells
// the id of the image that had that name; "" where none had. One at a time: of
// two that take one name at once each would find the other's image there.
func (r *Runner) nameImage(ctx context.Context, tag string, archive []byte, want string) (replaced string, err error) {
	select {
	case r.naming <- struct{}{}:
		defer func() { <-r.naming }()
	case <-ctx.Done():
		return "", fmt.Errorf("image %s: wait for the one before: %w", tag, ctx.Err())
	}
	before, err := r.inspectImage(ctx, tag)
	if err != nil && !errors.Is(err, runner.ErrNotFound) {
		return "", err
	}
	if err := r.loadImage(ctx, archive); err != nil {
		return "", fmt.Errorf("image %s: %w", tag, err)
	}
	f, err := r.inspectImage(ctx, tag)
	switch {
	case err != nil:
		return "", err
	case f.ID != want:
		return "", fmt.Errorf("image %s: loaded as %s, want %s: %w", tag, f.ID, want, runner.ErrUnavailable)
	case before.ID == want:
		return "", nil
	}
	return before.ID, nil
}

// dropStep removes what was only a step on the way; its layers stay for the
// image that was made of them.
func (r *Runner) dropStep(id string) error {
	// An engine whose disk is busy takes as long for this as for the layer.
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	_, err := r.api.ImageRemove(ctx, id, image.RemoveOptions{})
	return goneIsNil(wrap("remove image "+id, err))
}

func (r *Runner) inspectFull(ctx context.Context, ref string) (image.InspectResponse, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	i, err := r.api.ImageInspect(ctx, ref)
	if err == nil && i.ID == "" {
		return i, incomplete("image " + ref)
	}
	return i, wrap("image "+ref, err)
}
