package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// errLost: the sandbox lives, but the engine has forgotten the process: it was
// restarted, or its record was collected some minutes after the exit.
var errLost = errors.New("the engine no longer knows this process; its exit code is lost")

// errForeign: a container of that name exists and is somebody else's.
var errForeign = fmt.Errorf("%w: it was not made by this instance", runner.ErrDenied)

// look inspects a sandbox's container, and refuses one that is not ours:
// nothing in this package runs in, signals or reads what others have made.
func (r *Runner) look(ctx context.Context, ref string) (container.InspectResponse, error) {
	c, err := r.inspectContainer(ctx, ref)
	switch {
	case err != nil:
		return c, err
	case c.State == nil:
		return c, fmt.Errorf("container %s: the engine's answer has no state: %w", ref, runner.ErrUnavailable)
	case !r.owns(c.Name, c.Config.Labels):
		return c, fmt.Errorf("container %s: %w", ref, errForeign)
	}
	r.use.own.add(ref)
	return c, nil
}

// own remembers the sandboxes that were found to be ours, for calls that have
// no need of an inspect otherwise. The zero value is ready for use.
type own struct{ m sync.Map }

func (o *own) add(ref string)      { o.m.Store(ref, nil) }
func (o *own) drop(ref string)     { o.m.Delete(ref) }
func (o *own) has(ref string) bool { _, ok := o.m.Load(ref); return ok }

// Status reports the sandbox's state. A suspended sandbox is RUNNING, with the
// message "suspended".
func (r *Runner) Status(ctx context.Context, ref string) (runner.Status, error) {
	c, err := r.look(ctx, ref)
	if errors.Is(err, runner.ErrNotFound) {
		return runner.Status{State: types.StateStopped, Message: "container not found"}, nil
	}
	if err != nil {
		return runner.Status{}, err
	}
	return statusOf(c.State), nil
}

// statusOf is a container's state in the contract's words.
func statusOf(s *container.State) runner.Status {
	st := runner.Status{State: types.StateStopped}
	switch {
	case s.Paused:
		st.State, st.Message = types.StateRunning, "suspended"
	case s.Running:
		st.State = types.StateRunning
	case !started(s):
		st.State = types.StateStarting
	default:
		code := s.ExitCode
		st.ExitCode = &code
		switch {
		case oomKilled(s):
			st.State, st.Message = types.StateFailed, "OOM killed"
		case code != 0:
			st.State, st.Message = types.StateFailed, fmt.Sprintf("exit code %d", code)
		}
	}
	if s.Error != "" {
		st.Message = strings.TrimPrefix(st.Message+": "+engineText(s.Error), ": ")
	}
	return st
}

// AgentStatus reports the state of the process that Exec started, by the id it
// returned; "" is the main process. An exit code once seen is kept, because
// the engine forgets it some minutes later.
func (r *Runner) AgentStatus(ctx context.Context, ref, id string) (runner.Status, error) {
	if id == "" {
		return r.Status(ctx, ref)
	}
	if code, ok := r.exitSeen(ref, id); ok {
		return runner.Status{State: types.StateStopped, ExitCode: &code}, nil
	}
	s, err := r.inspectExec(ctx, id)
	if errors.Is(err, runner.ErrNotFound) {
		return r.lostAgent(ctx, ref, id)
	}
	if err != nil {
		return runner.Status{}, err
	}
	st, err := agentStatusOf(s)
	if err == nil && st.ExitCode != nil {
		r.keepExit(ref, id, *st.ExitCode)
	}
	return st, err
}

// lostAgent is the status of a process the engine does not know: stopped when
// its sandbox has stopped too, else unknown.
func (r *Runner) lostAgent(ctx context.Context, ref, id string) (runner.Status, error) {
	st, err := r.Status(ctx, ref)
	if err != nil {
		return runner.Status{}, err
	}
	if st.State.Terminal() {
		return runner.Status{State: types.StateStopped, Message: "its sandbox has stopped"}, nil
	}
	return runner.Status{}, fmt.Errorf("process %s in %s: %w: %w", id, ref, runner.ErrUnavailable, errLost)
}

// agentStatusOf is an exec's state in the contract's words. One that never ran
// has no exit code, and is no success.
func agentStatusOf(s execState) (runner.Status, error) {
	switch {
	case s.Running:
		return runner.Status{State: types.StateRunning}, nil
	case s.ExitCode == nil:
		return runner.Status{}, fmt.Errorf("%w: the process was never started", runner.ErrPrecondition)
	}
	return runner.Status{State: types.StateStopped, ExitCode: s.ExitCode}, nil
}
