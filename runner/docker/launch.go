package docker

import (
	"context"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

var _ runner.Launcher = (*Runner)(nil)

// Launch is CreateSandbox and the start of the main process in one, which takes
// hardly longer than the slower of the two containers needs to start. The main
// process begins when the sidecar is ready and not before.
func (r *Runner) Launch(ctx context.Context, spec runner.SandboxSpec) (runner.Sandbox, error) {
	return r.create(ctx, spec, true)
}
