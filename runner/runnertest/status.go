package runnertest

import (
	"context"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Status reports the sandbox's state.
func (f *Fake) Status(ctx context.Context, ref string) (runner.Status, error) {
	if err := f.enter(ctx, "Status", ref); err != nil {
		return runner.Status{}, err
	}
	return f.status(ref), nil
}

func (f *Fake) status(ref string) runner.Status {
	s, err := f.find(ref)
	if err != nil {
		return runner.Status{State: types.StateStopped, Message: "sandbox not found"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.main == nil:
		return runner.Status{State: types.StateStarting}
	case s.main.alive():
		return runner.Status{State: types.StateRunning}
	}
	return ended(s.main.exit)
}

func ended(e runner.Exit) runner.Status {
	st := runner.Status{State: types.StateStopped, ExitCode: &e.Code}
	switch {
	case e.OOMKilled:
		st.State, st.Message = types.StateFailed, "OOM killed"
	case e.Code != 0:
		st.State, st.Message = types.StateFailed, fmt.Sprintf("exit code %d", e.Code)
	}
	if e.Err != nil {
		st.State, st.Message, st.ExitCode = types.StateFailed, e.Err.Error(), nil
	}
	return st
}

// AgentStatus reports the agent's state by the id that Exec returned.
func (f *Fake) AgentStatus(ctx context.Context, ref, id string) (runner.Status, error) {
	if err := f.enter(ctx, "AgentStatus", ref); err != nil {
		return runner.Status{}, err
	}
	s, err := f.find(ref)
	if id == "" || err != nil {
		return f.status(ref), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.agents[id]
	switch {
	case p == nil && s.running():
		return runner.Status{}, fmt.Errorf("sandbox %s: agent %q: %w", ref, id, runner.ErrNotFound)
	case p == nil:
		return runner.Status{State: types.StateStopped}, nil
	case p.alive():
		return runner.Status{State: types.StateRunning}, nil
	}
	code := p.exit.Code
	return runner.Status{State: types.StateStopped, ExitCode: &code}, nil
}
