package docker

import (
	"context"
	"errors"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// createRounds bounds how often an exec is asked for that is refused by a state
// the sandbox is not in.
const createRounds = 7

// createExec makes an exec, which is then to be started.
//
// An engine's word on a sandbox may be late: it can hear from its runtime that
// the sandbox was frozen after it has thawed it, and refuses execs until it has
// heard of the thaw as well. So a refusal is believed when the sandbox shows
// the state that is its reason.
func (r *Runner) createExec(ctx context.Context, ref string, o container.ExecOptions) (string, error) {
	for pause, round := (backoff{}), 1; ; round++ {
		made, err := r.api.ContainerExecCreate(ctx, ref, o)
		if err == nil {
			return made.ID, nil
		}
		err, shown := r.execRefused(ctx, ref, err)
		if shown || round == createRounds || pause.sleep(ctx) != nil {
			return "", err
		}
	}
}

// execRefused says why a sandbox takes no exec, and whether what is known of
// the sandbox shows that it takes none.
func (r *Runner) execRefused(ctx context.Context, ref string, err error) (reason error, shown bool) {
	err = refused("exec in "+ref, err)
	if !errors.Is(err, runner.ErrPrecondition) {
		return err, true
	}
	c, lerr := r.look(ctx, ref)
	switch {
	case lerr != nil:
		return err, true
	case c.State.Paused:
		return frozen("exec in", ref), true
	case !c.State.Running:
		return notRunning("exec in", ref, c.State), true
	}
	return err, false
}
