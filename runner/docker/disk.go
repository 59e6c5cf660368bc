package docker

import (
	"context"
	"fmt"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// DiskUsage is how many bytes a sandbox has written over its image, as far as
// that could be measured where there is an error. It takes as long as there are
// many files.
func (r *Runner) DiskUsage(ctx context.Context, ref string) (int64, error) {
	c, _, err := r.api.ContainerInspectWithRaw(ctx, ref, true)
	switch {
	case err != nil:
		return 0, wrap("measure "+ref, err)
	case c.ContainerJSONBase == nil || c.SizeRw == nil:
		return 0, nil
	case *c.SizeRw >= 0:
		return *c.SizeRw, nil
	}
	return upperSize(ctx, ref, c)
}

// upperSize measures what an engine cannot: it names files by their paths, and a
// sandbox can make one longer than a path may be.
func upperSize(ctx context.Context, ref string, c container.InspectResponse) (int64, error) {
	dir := c.GraphDriver.Data["UpperDir"]
	if dir == "" {
		return 0, fmt.Errorf("measure %s: the engine cannot add up what it has written, and does not say where that is: %w", ref, runner.ErrUnsupported)
	}
	n, err := taskpath.TreeSize(ctx, dir, "")
	if err != nil {
		err = fmt.Errorf("measure %s: %w", ref, err)
	}
	return n, err
}
