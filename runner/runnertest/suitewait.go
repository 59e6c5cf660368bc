package runnertest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

func checkWaitExitCode(t *testing.T, b *bench) {
	ref := b.idle(t)
	for _, want := range []int{42, 0} { // the latest Exec is the one waited for
		id, err := b.r.Exec(b.ctx, ref, []string{"sh", "-c", "exit " + strconv.Itoa(want)})
		if err != nil || id == "" {
			t.Fatalf("Exec: %q, %v", id, err)
		}
		if code, err := b.r.Wait(b.ctx, ref); code != want || err != nil {
			t.Errorf("Wait: %d, %v; want %d", code, err, want)
		}
		st, err := b.r.AgentStatus(b.ctx, ref, id)
		if err != nil || st.State != types.StateStopped || st.ExitCode == nil || *st.ExitCode != want {
			t.Errorf("AgentStatus: %+v, %v; want STOPPED with %d", st, err, want)
		}
	}
	if st := b.state(t, ref); st.State != types.StateRunning {
		t.Errorf("the sandbox is %s after its agent's exit, want RUNNING", st.State)
	}
	if _, err := b.r.Exec(b.ctx, ref, nil); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("Exec of nothing: %v, want ErrInvalid", err)
	}
}

// K4: the command is the main process; Exec starts it and names no exec.
func checkMainExitCode(t *testing.T, b *bench) {
	spec := b.spec("")
	spec.Task = &runner.TaskProcess{Entrypoint: []string{}, Argv: []string{"sh", "-c", "exit 42"}}
	ref := b.create(t, spec)
	if st := b.state(t, ref); st.State != types.StateStarting {
		t.Errorf("before Exec: %s, want STARTING", st.State)
	}
	if _, err := b.r.Exec(b.ctx, ref, []string{"true"}); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("Exec with a command: %v, want ErrInvalid", err)
	}
	if id, err := b.r.Exec(b.ctx, ref, nil); id != "" || err != nil {
		t.Fatalf("Exec: %q, %v; want no id and no error", id, err)
	}
	if code, err := b.r.Wait(b.ctx, ref); code != 42 || err != nil {
		t.Errorf("Wait: %d, %v; want 42", code, err)
	}
	st, err := b.r.AgentStatus(b.ctx, ref, "")
	if err != nil || st.State != types.StateFailed || st.ExitCode == nil || *st.ExitCode != 42 {
		t.Errorf("AgentStatus: %+v, %v; want FAILED with 42", st, err)
	}
}

func checkWaitNeedsAgent(t *testing.T, b *bench) {
	ref := b.idle(t)
	if code, err := b.r.Wait(b.ctx, ref); err == nil {
		t.Errorf("Wait without Exec: %d, want an error", code)
	}
}

func checkWaitContext(t *testing.T, b *bench) {
	ref := b.idle(t)
	if _, err := b.r.Exec(b.ctx, ref, []string{"sleep", "3600"}); err != nil {
		t.Fatal(err)
	}
	inner, cancel := context.WithCancel(b.ctx)
	ctx := &watched{Context: inner, asked: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := b.r.Wait(ctx, ref)
		done <- err
	}()
	select {
	case <-ctx.asked: // it waits for the end of its context among other things
	case <-b.ctx.Done():
		t.Error("Wait never looked at its context")
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v, want the context's error", err)
		}
	case <-b.ctx.Done():
		t.Error("Wait goes on without its context")
	}
}

// watched tells when somebody begins to wait for the context's end.
type watched struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}
