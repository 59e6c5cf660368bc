package docker

import (
	"context"

	"github.com/docker/docker/api/types/container"
)

// renewHolder gives a sandbox that is started again a network namespace to
// join, where it needs a new one: gVisor takes the addresses of the one it
// joins for its own, and the next to join would find none.
func (r *Runner) renewHolder(ctx context.Context, agent container.InspectResponse) error {
	h := agent.HostConfig
	if h == nil || !h.NetworkMode.IsContainer() || !inFamily(h.Runtime, familyGVisor) || !started(agent.State) {
		return nil
	}
	holder := h.NetworkMode.ConnectedContainer()
	c, err := r.look(ctx, holder)
	if err != nil {
		return err
	}
	err = r.halt(ctx, c, func(ctx context.Context, id string) error {
		ctx, cancel := call(ctx)
		defer cancel()
		now := 0
		return wrap("stop the holder", r.api.ContainerStop(ctx, id, container.StopOptions{Timeout: &now}))
	})
	if err != nil {
		return err
	}
	ctx, cancel := call(ctx)
	defer cancel()
	return wrap("start the holder", r.api.ContainerStart(ctx, holder, container.StartOptions{}))
}
