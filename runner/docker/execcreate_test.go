package docker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// lateEngine refuses so many execs as if the sandbox were still frozen.
type lateEngine struct {
	*fakeEngine
	refusals, asked int
	paused          bool // it shows the sandbox so, too
}

func (l *lateEngine) ContainerExecCreate(context.Context, string, container.ExecOptions) (container.ExecCreateResponse, error) {
	l.asked++
	if l.asked <= l.refusals {
		return container.ExecCreateResponse{}, fmt.Errorf("it is paused, unpause the container before exec: %w", errdefs.ErrConflict)
	}
	return container.ExecCreateResponse{ID: "exec"}, nil
}

func (l *lateEngine) ContainerExecStart(context.Context, string, container.ExecStartOptions) error {
	return nil
}

func (l *lateEngine) ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error) {
	c, err := l.fakeEngine.ContainerInspect(ctx, id)
	if err == nil && l.paused {
		state := *c.State
		state.Paused = l.asked <= l.refusals
		c.State = &state
	}
	return c, err
}

// An engine that has not yet heard of a thaw refuses execs in a sandbox that
// runs. What is owed to a frozen one is done as soon as it is thawed.
func TestLateWordOfAThaw(t *testing.T) {
	for _, c := range []struct {
		name           string
		refusals       int
		paused, frozen bool
	}{
		{"at once", 0, false, false},
		{"late", 3, false, false},
		{"refused for good", 1000, false, false},
		{"shown as frozen", 3, true, false},
		{"frozen again", 1000, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFakeWorld(t)
			sandbox, err := w.Launch(t.Context(), fakeSpec())
			if err != nil {
				t.Fatal(err)
			}
			l := &lateEngine{fakeEngine: w.engine, refusals: c.refusals, paused: c.paused}
			w.Runner.api = l
			id, err := w.createExec(t.Context(), sandbox.Ref, container.ExecOptions{})
			switch {
			case c.paused: // a refusal that is shown to be right stands
				if !errors.Is(err, errFrozen) || l.asked != 1 {
					t.Errorf("%v after %d calls", err, l.asked)
				}
			case c.refusals > createRounds:
				if !errors.Is(err, runner.ErrPrecondition) || errors.Is(err, errFrozen) || l.asked != createRounds {
					t.Errorf("%v after %d calls", err, l.asked)
				}
			case err != nil || id != "exec" || l.asked != c.refusals+1:
				t.Errorf("%q, %v after %d calls", id, err, l.asked)
			}
			l.asked = 0
			w.use.owed.add(sandbox.Ref, "one")
			w.settleOwed(t.Context(), sandbox.Ref)
			if left := w.use.owed.take(sandbox.Ref); (len(left) > 0) != c.frozen {
				t.Errorf("owed afterwards: %v", left)
			}
			if done := l.asked > l.refusals; done != (c.refusals < createRounds) {
				t.Errorf("%d calls", l.asked)
			}
		})
	}
}
