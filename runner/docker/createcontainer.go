package docker

import (
	"context"
	"fmt"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// createFromTools creates a container of the tools image, which is loaded again
// when somebody removed it since it was looked at.
func (r *Runner) createFromTools(ctx context.Context, name string, c containerConfig) (string, error) {
	id, err := r.createContainer(ctx, name, c)
	if !isNoSuchImage(err) {
		return id, err
	}
	if _, err := r.toolImage(ctx); err != nil {
		return "", err
	}
	return r.createContainer(ctx, name, c)
}

// createContainer asks for a container and refuses one that the engine would
// run with a limit dropped, before it has run an instruction. When it fails the
// container may be there all the same.
func (r *Runner) createContainer(ctx context.Context, name string, c containerConfig) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", wrap("create container "+name, err)
	}
	mctx, cancel := making(ctx)
	defer cancel()
	resp, err := r.api.ContainerCreate(mctx, c.Config, c.HostConfig, c.Networking, nil, name)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return resp.ID, wrap("create container "+name, err)
	}
	for _, w := range resp.Warnings {
		if strings.Contains(strings.ToLower(w), "discard") {
			return resp.ID, fmt.Errorf("container %s: the engine drops a limit: %s: %w", name, strings.TrimSpace(w), runner.ErrUnsupported)
		}
		r.opts.Log.Warn("the engine warns", "container", name, "warning", w)
	}
	return resp.ID, nil
}
