package docker

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// leaveSlot is the taking down of a run that has a slot, oldest first: what is
// the run's own goes, its sidecar hands over its last records and ends, and the
// rest of the slot is left to the pool, which removes it.
func (r *Runner) leaveSlot(run uuid.UUID, e slotEntry) []step {
	s := r.steps(run)
	leave := step{"leave the slot", func(context.Context) error {
		defer r.pool.changed()
		_, _, err := r.slots().move(e, slotOld, uuid.Nil)
		return err
	}, true}
	drain := step{"end the sidecar", func(ctx context.Context) error { return r.drainSidecar(ctx, e.ID) }, false}
	return []step{s.record, leave, s.folder, s.control, together("end the containers", s.agent, drain)}
}

// drainSidecar ends the sidecar's process and returns when it is down. That is
// long before the engine has cleared its networks away.
func (r *Runner) drainSidecar(ctx context.Context, id uuid.UUID) error {
	name := ProxyName(id)
	c, err := r.look(ctx, name)
	switch {
	case errors.Is(err, runner.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !c.State.Running:
		return nil
	}
	if err := r.thaw(ctx, c); err != nil {
		return err
	}
	process, err := unix.PidfdOpen(c.State.Pid, 0)
	if err != nil { // an engine among other processes than ours
		return r.removeSidecar(ctx, id)
	}
	defer unix.Close(process)
	kctx, cancel := call(ctx)
	defer cancel()
	if err := goneIsNil(wrap("stop "+name, r.api.ContainerKill(kctx, c.ID, defaultStopSignal))); err != nil {
		return r.removeSidecar(ctx, id)
	}
	wctx, cancel := context.WithTimeout(ctx, sidecarGrace)
	defer cancel()
	if !ended(wctx, process) {
		return r.removeSidecar(ctx, id)
	}
	return nil
}

// ended waits until the process of a descriptor is down, or ctx over.
func ended(ctx context.Context, process int) bool {
	const slice = 50 * time.Millisecond // between looks at ctx
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(slice.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		if n > 0 {
			return true
		}
	}
	return false
}
