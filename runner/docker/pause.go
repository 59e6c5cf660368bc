package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// parkGrace is how long a parked sandbox's process may take to end by itself.
const parkGrace = 10 * time.Second

// listLag is many times what an engine takes to list what it knows.
const listLag = 15 * time.Second

var _ runner.Suspender = (*Runner)(nil)

// Pause freezes the sandbox; a frozen one is nil. ErrPrecondition when its
// main process does not run.
//
// What "frozen" costs depends on the class: at CC1 no CPU at all; at CC2 no
// instruction of the task runs, but the sentry itself goes on turning over, at
// about 3 % of a core.
func (r *Runner) Pause(ctx context.Context, ref string) error {
	c, err := r.look(ctx, ref)
	switch {
	case err != nil:
		return err
	case c.State.Paused:
		return nil
	case !c.State.Running:
		return notRunning("suspend", ref, c.State)
	}
	cctx, cancel := call(ctx)
	defer cancel()
	return r.unless(ctx, ref, suspended, refused("suspend "+ref, r.api.ContainerPause(cctx, ref)))
}

// Unpause thaws the sandbox; one that is not frozen is nil.
func (r *Runner) Unpause(ctx context.Context, ref string) error {
	c, err := r.look(ctx, ref)
	switch {
	case err != nil:
		return err
	case !c.State.Running:
		return notRunning("resume", ref, c.State)
	case !c.State.Paused:
		return nil
	}
	cctx, cancel := call(ctx)
	defer cancel()
	err = refused("resume "+ref, r.api.ContainerUnpause(cctx, ref))
	if err := r.unless(ctx, ref, thawed, err); err != nil {
		return err
	}
	r.settleOwed(ctx, ref)
	return nil
}

// Start starts the main process of a sandbox that was parked, with its output
// attached first where this process knows its sink. A running one is nil, a
// suspended one ErrPrecondition.
func (r *Runner) Start(ctx context.Context, ref string) error {
	c, err := r.look(ctx, ref)
	switch {
	case err != nil:
		return err
	case c.State.Paused:
		return fmt.Errorf("start %s: %w: it is suspended; resume it", ref, runner.ErrPrecondition)
	case c.State.Running:
		return nil
	}
	r.use.ending.drop(ref)
	r.use.unseen.drop(ref)
	r.use.gives.drop(ref)
	if err := r.renewHolder(ctx, c); err != nil {
		return err
	}
	return r.startMain(ctx, ref, c.Config.Tty)
}

// Park ends the main process and keeps the sandbox for Start. Whoever parks
// has to know it when Wait returns: to Wait it is an exit like any other.
func (r *Runner) Park(ctx context.Context, ref string) error {
	if _, err := r.look(ctx, ref); err != nil {
		return err // StopProcess would take a sandbox that is gone for a success
	}
	if err := r.stopProcess(ctx, ref, "", parkGrace, false); err != nil {
		return err
	}
	return r.awaitListed(ctx, ref)
}

// awaitListed returns when the engine lists a sandbox as stopped. It brings its
// list up to date a moment after it has said that a process is down, and who
// asks the list in between would count a slot that is free.
func (r *Runner) awaitListed(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, listLag)
	defer cancel()
	for pause := (backoff{}); ; {
		all, err := r.ListSandboxes(ctx)
		if err == nil && !slices.ContainsFunc(all, func(l runner.Listed) bool { return l.Ref == ref && l.Running }) {
			return nil
		}
		if serr := pause.sleep(ctx); serr != nil {
			return fmt.Errorf("suspend %s: the engine lists it as running: %w: %w", ref, runner.ErrUnavailable, errors.Join(serr, err))
		}
	}
}

func suspended(s *container.State) bool { return s.Paused }
func thawed(s *container.State) bool    { return !s.Paused }

// unless drops the error of a call that lost a race, when what it was to bring
// about holds anyway.
func (r *Runner) unless(ctx context.Context, ref string, holds func(*container.State) bool, err error) error {
	if !errors.Is(err, runner.ErrPrecondition) {
		return err
	}
	if c, lerr := r.look(ctx, ref); lerr == nil && holds(c.State) {
		return nil
	}
	return err
}

// refused is wrap for the calls that an engine refuses by the state the
// sandbox is in: the conflict is then with that state, not with a name.
func refused(step string, err error) error {
	switch {
	case err == nil:
		return nil
	case errdefs.IsConflict(err):
		return fmt.Errorf("%s: %w: %w", step, runner.ErrPrecondition, bounded{err})
	}
	return wrap(step, bounded{err})
}

// notRunning is the error of a verb that needs a main process.
func notRunning(verb, ref string, s *container.State) error {
	if !started(s) {
		return fmt.Errorf("%s %s: %w: it has not been started", verb, ref, runner.ErrPrecondition)
	}
	return fmt.Errorf("%s %s: %w: its process has exited", verb, ref, runner.ErrPrecondition)
}

// errFrozen tells a suspended sandbox from the other failed preconditions.
var errFrozen = fmt.Errorf("%w: the sandbox is suspended; resume it first", runner.ErrPrecondition)

// frozen is the error of a verb that a suspended sandbox cannot serve.
func frozen(verb, ref string) error { return fmt.Errorf("%s %s: %w", verb, ref, errFrozen) }
