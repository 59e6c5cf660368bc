package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/volume"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// CreateVolume makes a named volume, or adopts the one of that name if it is
// this instance's and carries every given label of ours (wardyn.*) with the
// same value; other labels are only set, not compared.
func (r *Runner) CreateVolume(ctx context.Context, name string, labels map[string]string) error {
	have, err := r.inspectVolume(ctx, name)
	if err == nil {
		return r.checkVolume(have, labels)
	}
	if !errors.Is(err, runner.ErrNotFound) {
		return err
	}
	c, cancel := making(ctx)
	defer cancel()
	_, err = r.api.VolumeCreate(c, volume.CreateOptions{
		Name: name, Driver: "local",
		Labels: mergeLabels(nil, labels, r.reserved(name, componentVolume)),
	})
	if err != nil {
		return wrap("create volume "+name, err)
	}
	// A create of an existing name answers like a fresh one: look at what it is.
	have, err = r.inspectVolume(ctx, name)
	if err != nil {
		return err
	}
	return r.checkVolume(have, labels)
}

// RemoveVolume removes a named volume of this instance. An absent one is nil;
// one in use wraps runner.ErrPrecondition; a stranger's stays, and is an error.
func (r *Runner) RemoveVolume(ctx context.Context, name string) error {
	have, err := r.inspectVolume(ctx, name)
	if err != nil {
		return goneIsNil(err)
	}
	if err := r.checkVolume(have, nil); err != nil {
		return err
	}
	ctx, cancel := call(ctx)
	defer cancel()
	err = goneIsNil(wrap("remove volume "+name, r.api.VolumeRemove(ctx, name, false)))
	if errors.Is(err, runner.ErrExists) {
		return fmt.Errorf("volume %s is in use: %w: %w", name, runner.ErrPrecondition, err)
	}
	return err
}

func (r *Runner) inspectVolume(ctx context.Context, name string) (volume.Volume, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	v, err := r.api.VolumeInspect(ctx, name)
	if err == nil && v.Name == "" {
		return v, incomplete("volume " + name)
	}
	return v, wrap("volume "+name, err)
}

// checkVolume refuses a volume that is not ours or belongs to someone else
// among our users.
func (r *Runner) checkVolume(v volume.Volume, want map[string]string) error {
	if !r.owns(v.Name, v.Labels) {
		return fmt.Errorf("volume %s was not made by this instance; choose another name: %w", v.Name, runner.ErrExists)
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if !strings.HasPrefix(k, labelPrefix) {
			continue
		}
		if v.Labels[k] != want[k] {
			return fmt.Errorf("volume %s has %s=%q, not %q: it belongs to someone else: %w", v.Name, k, v.Labels[k], want[k], runner.ErrExists)
		}
	}
	return nil
}
