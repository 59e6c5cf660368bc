package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// stopGrace is how long a graceful stop of a whole sandbox waits before it kills.
const stopGrace = 10 * time.Second

// removalPoll paces the wait for a removal that somebody else has begun.
const removalPoll = 100 * time.Millisecond

// StopSandbox ends the agent with its stop signal, waits ten seconds at most,
// and removes the sandbox. A sandbox that is gone is nil.
func (r *Runner) StopSandbox(ctx context.Context, ref string) error {
	return r.end(ctx, ref, func(ctx context.Context, id string) error {
		c, cancel := context.WithTimeout(ctx, stopGrace+callTimeout)
		defer cancel()
		secs := int(stopGrace / time.Second)
		return wrap("stop", r.api.ContainerStop(c, id, container.StopOptions{Timeout: &secs}))
	})
}

// KillSandbox ends the agent at once and removes the sandbox. A sandbox that
// is gone is nil.
func (r *Runner) KillSandbox(ctx context.Context, ref string) error {
	return r.end(ctx, ref, func(ctx context.Context, id string) error {
		c, cancel := call(ctx)
		defer cancel()
		return wrap("kill", r.api.ContainerKill(c, id, "KILL"))
	})
}

// end stops the agent in the given way, then takes everything down.
func (r *Runner) end(ctx context.Context, ref string, stop func(context.Context, string) error) error {
	run, err := r.runOf(ctx, ref)
	if errors.Is(err, runner.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.making.abort(ctx, run); err != nil {
		return err
	}
	if err := r.stopOwned(ctx, AgentName(run), stop); err != nil {
		return fmt.Errorf("sandbox %s: %w", ref, err)
	}
	if err := r.teardown(ctx, run); err != nil {
		return fmt.Errorf("sandbox %s: %w", ref, err)
	}
	return nil
}

// teardown removes all that a run owns, with nothing in memory. It removes
// nothing that is not ours, and forgets the run only when all of it is gone.
func (r *Runner) teardown(ctx context.Context, run uuid.UUID) error {
	r.use.forget(AgentName(run))
	e, pooled, err := r.slots().of(run)
	if err != nil {
		return err
	}
	if pooled {
		r.use.groups.drop(ProxyName(e.ID))
	}
	if pooled && r.pool.keeping.Load() {
		return unwind(ctx, r.leaveSlot(run, e))
	}
	return unwind(ctx, r.steps(run).all())
}

// runOf is the run of a ref. A ref is the agent's name; its id is taken too.
func (r *Runner) runOf(ctx context.Context, ref string) (uuid.UUID, error) {
	run, err := RunOf(ref)
	if err == nil {
		return run, nil
	}
	c, cerr := r.inspectContainer(ctx, ref)
	if cerr != nil {
		return uuid.Nil, cerr
	}
	if !r.owns(c.Name, c.Config.Labels) {
		return uuid.Nil, fmt.Errorf("container %s is not one of this instance's: %w", ref, runner.ErrDenied)
	}
	return RunOf(c.Name)
}

// stopOwned stops the container of that name in the given way if it is ours
// and runs.
func (r *Runner) stopOwned(ctx context.Context, name string, stop func(context.Context, string) error) error {
	c, err := r.inspectContainer(ctx, name)
	if err != nil {
		return goneIsNil(err)
	}
	if !r.owns(c.Name, c.Config.Labels) {
		return nil // the removal that follows says what it thinks of a stranger
	}
	return r.halt(ctx, c, stop)
}

// halt stops a container of ours that runs. A paused one is thawed first:
// under gVisor it could not be killed.
func (r *Runner) halt(ctx context.Context, c container.InspectResponse, stop func(context.Context, string) error) error {
	if c.State == nil || !c.State.Running {
		return nil
	}
	if err := r.thaw(ctx, c); err != nil {
		return err
	}
	err := goneIsNil(stop(ctx, c.ID))
	if err != nil && strings.Contains(err.Error(), "is not running") {
		return nil
	}
	return err
}

// thaw resumes a paused container.
func (r *Runner) thaw(ctx context.Context, c container.InspectResponse) error {
	if c.State == nil || !c.State.Paused {
		return nil
	}
	ctx, cancel := call(ctx)
	defer cancel()
	err := goneIsNil(wrap("resume", r.api.ContainerUnpause(ctx, c.ID)))
	if err != nil && strings.Contains(err.Error(), "is not paused") {
		return nil
	}
	return err
}

// removeSidecar lets the sidecar hand over its last records, then removes it.
func (r *Runner) removeSidecar(ctx context.Context, run uuid.UUID) error {
	return r.endSidecar(ctx, run, func(ctx context.Context, id string) error {
		c, cancel := context.WithTimeout(ctx, sidecarGrace+callTimeout)
		defer cancel()
		secs := int(sidecarGrace / time.Second)
		return wrap("stop", r.api.ContainerStop(c, id, container.StopOptions{Timeout: &secs}))
	})
}

// dropSidecar removes a sidecar that has nothing to hand over.
func (r *Runner) dropSidecar(ctx context.Context, id uuid.UUID) error {
	return r.endSidecar(ctx, id, func(context.Context, string) error { return nil })
}

// endSidecar removes a sidecar that is stopped in the given way. One that runs
// leaves the egress network first.
func (r *Runner) endSidecar(ctx context.Context, run uuid.UUID, stop func(context.Context, string) error) error {
	return r.remove(ctx, ProxyName(run), func(ctx context.Context, id string) error {
		if err := r.leaveEgress(ctx, id); err != nil {
			r.opts.Log.Warn("sidecar is stopped on the egress network", "run_id", run, "error", err)
		}
		return stop(ctx, id)
	})
}

// removeOwned removes the container of that name, whatever its state, and its
// anonymous volumes. One that is gone is nil; one that is not ours stays, and
// is an error.
func (r *Runner) removeOwned(ctx context.Context, name string) error {
	return r.remove(ctx, name, nil)
}

// remove is removeOwned after a stop in the given way, nil for none. A stop
// that fails does not keep the container.
func (r *Runner) remove(ctx context.Context, name string, stop func(context.Context, string) error) error {
	c, err := r.inspectContainer(ctx, name)
	if err != nil {
		return goneIsNil(err)
	}
	if !r.owns(c.Name, c.Config.Labels) {
		return fmt.Errorf("container %s was not made by this instance and is left alone: %w", name, runner.ErrDenied)
	}
	// Removed while paused, a gVisor container would leave processes behind.
	if err := r.thaw(ctx, c); err != nil {
		return err
	}
	if stop != nil && c.State != nil {
		c.State.Paused = false
		err = r.halt(ctx, c, stop)
	}
	rctx, cancel := call(ctx)
	defer cancel()
	rerr := goneIsNil(wrap("remove "+name, r.api.ContainerRemove(rctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})))
	if rerr != nil && strings.Contains(rerr.Error(), "already in progress") {
		rerr = r.awaitGone(rctx, c.ID)
	}
	if rerr == nil && err != nil {
		r.opts.Log.Warn("container removed without having been stopped in order", "container", name, "error", err)
	}
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	return nil
}

// awaitGone waits for a removal that somebody else has begun.
func (r *Runner) awaitGone(ctx context.Context, id string) error {
	tick := time.NewTicker(removalPoll)
	defer tick.Stop()
	for {
		if _, err := r.inspectContainer(ctx, id); err != nil {
			return goneIsNil(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("removal of %s: %w: %w", id, runner.ErrUnavailable, ctx.Err())
		}
	}
}

func (r *Runner) inspectContainer(ctx context.Context, id string) (container.InspectResponse, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	c, err := r.api.ContainerInspect(ctx, id)
	if err != nil {
		return c, wrap("container "+id, err)
	}
	if c.ContainerJSONBase == nil || c.Config == nil {
		return c, incomplete("container " + id)
	}
	return c, nil
}
