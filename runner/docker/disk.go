package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// DiskUsage is how many bytes a sandbox has on the node's disks that go with
// it: what it has written over its image, what lies in volumes that its image
// declares, and what its processes hold of files that have no name any more.
// With an error it is what could be measured. It takes as long as there are
// many files.
func (r *Runner) DiskUsage(ctx context.Context, ref string) (int64, error) {
	c, err := r.look(ctx, ref)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", ref, err)
	}
	total, err := heldOf(ctx, c.State.Pid)
	errs := []error{err}
	n, err := r.written(ctx, c)
	total += n
	errs = append(errs, err)
	for _, dir := range imageVolumes(c) {
		n, err := taskpath.TreeSize(ctx, dir, "")
		total += n
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return total, fmt.Errorf("measure %s: %w", ref, err)
	}
	return total, nil
}

// written measures what a sandbox has written over its image. The engine is
// asked only where it does not say where that lies: it counts holes as if they
// were filled and files without contents not at all, and goes on counting when
// nobody waits for the answer any more.
func (r *Runner) written(ctx context.Context, c container.InspectResponse) (int64, error) {
	if layers := layersOf(c.GraphDriver.Name, c.GraphDriver.Data); len(layers) > 0 && layers[0] == c.GraphDriver.Data["UpperDir"] {
		return taskpath.TreeSize(ctx, layers[0], "")
	}
	c, _, err := r.api.ContainerInspectWithRaw(ctx, c.ID, true)
	switch {
	case err != nil:
		return 0, wrap("what it has written", err)
	case c.ContainerJSONBase == nil || c.SizeRw == nil:
		return 0, nil
	case *c.SizeRw < 0:
		return 0, fmt.Errorf("the engine cannot add up what it has written, and does not say where that is: %w", runner.ErrUnsupported)
	}
	return *c.SizeRw, nil
}

// imageVolumes are the folders of the volumes that a container has because its
// image declares them. Nobody asked for those, and they go with the container.
func imageVolumes(c container.InspectResponse) (dirs []string) {
	asked := func(target string) bool {
		return c.HostConfig != nil && slices.ContainsFunc(c.HostConfig.Mounts, func(m mount.Mount) bool { return m.Target == target })
	}
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume && m.Source != "" && !asked(m.Destination) {
			dirs = append(dirs, m.Source)
		}
	}
	return dirs
}
