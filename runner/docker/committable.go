package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Committable is nil when what a sandbox changes can be committed at all.
//
// gVisor keeps a container's changes in a file of its own unless it is told
// not to: a commit would succeed and hold nothing of them. That file goes with
// the sandbox's process, so that its absence says something only while that
// runs. Of one that has ended before it was seen running, the registration of
// its runtime tells, or changes that only the sandbox can have made.
func (r *Runner) Committable(ctx context.Context, ref string) error {
	c, err := r.look(ctx, ref)
	if err != nil {
		return err
	}
	if c.HostConfig == nil {
		return incomplete("container " + ref)
	}
	runtime := c.HostConfig.Runtime
	if !inFamily(runtime, familyGVisor) || r.use.gives.has(ref) {
		return nil
	}
	changes, err := r.changes(ctx, c.ID)
	switch {
	case err != nil:
		return err
	case keptByGVisor(changes):
		return fmt.Errorf("runtime %s keeps the changes of %s where the engine does not see them, so an image of it would lack them; "+
			"register the runtime with the argument %s: %w", runtime, ref, overlayOff, runner.ErrUnsupported)
	}
	if c, err = r.look(ctx, ref); err != nil {
		return err
	}
	if c.State.Running {
		r.use.gives.add(ref)
		return nil
	}
	host, err := r.facts(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(host.OverlayOff, runtime) || changedInside(changes, c) {
		return nil
	}
	return fmt.Errorf("%s ended before it could be seen whether runtime %s keeps its changes where the engine does not see them; "+
		"register the runtime with the argument %s: %w", ref, runtime, overlayOff, runner.ErrUnsupported)
}

// overlayOff has gVisor write a container's changes where the engine looks.
const overlayOff = "--overlay2=none"

func (r *Runner) changes(ctx context.Context, id string) ([]container.FilesystemChange, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	list, err := r.api.ContainerDiff(ctx, id)
	return list, wrap("changes of "+id, err)
}

func keptByGVisor(changes []container.FilesystemChange) bool {
	return slices.ContainsFunc(changes, func(f container.FilesystemChange) bool { return strings.HasPrefix(f.Path, "/.gvisor.filestore") })
}

// changedInside: something changed that is no mount point, nor a folder on the
// way to one; those a runtime makes from outside.
func changedInside(changes []container.FilesystemChange, c container.InspectResponse) bool {
	outside := []string{"/proc", "/sys", "/dev", tmpTarget}
	for _, m := range c.Mounts {
		outside = append(outside, m.Destination)
	}
	if c.HostConfig != nil {
		outside = slices.AppendSeq(outside, maps.Keys(c.HostConfig.Tmpfs))
	}
	return slices.ContainsFunc(changes, func(f container.FilesystemChange) bool {
		return !slices.ContainsFunc(outside, func(o string) bool { return below(f.Path, o) || below(o, f.Path) })
	})
}
