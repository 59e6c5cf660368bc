package docker

import (
	"context"
	"maps"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// ListSandboxes returns every sandbox of this instance, in any state. What
// carries our labels without the proof is left out.
func (r *Runner) ListSandboxes(ctx context.Context) ([]runner.Listed, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	found, err := r.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", labelInstance+"="+r.opts.Dir.Instance()),
		filters.Arg("label", labelComponent+"="+componentAgent),
	)})
	if err != nil {
		return nil, wrap("list sandboxes", err)
	}
	var out []runner.Listed
	for _, c := range found {
		if len(c.Names) == 0 || !r.owns(c.Names[0], c.Labels) {
			continue
		}
		out = append(out, runner.Listed{
			Ref:       strings.TrimPrefix(c.Names[0], "/"),
			Labels:    maps.Clone(c.Labels),
			Running:   c.State == container.StateRunning || c.State == container.StatePaused,
			Suspended: c.State == container.StatePaused,
		})
	}
	return out, nil
}
