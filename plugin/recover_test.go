package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// counting prints a number each time it is told to, and exits with 7 on "end".
func counting(next chan string) runnertest.Program {
	return func(ctx context.Context, p *runnertest.Process) int {
		for {
			select {
			case s := <-next:
				if s == "end" {
					return 7
				}
				fmt.Fprintln(p.Stdout, s)
			case <-ctx.Done():
				return 137
			}
		}
	}
}

// TestI5PluginCrash: the plugin dies under a living client and is started anew.
func TestI5PluginCrash(t *testing.T) {
	next := make(chan string)
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"count": counting(next)}}})
	tc, h := b.start("web", args("count"))
	waiting := make(chan error, 1)
	go func() {
		_, err := b.host.WaitTask(b.ctx(), tc.ID)
		waiting <- err
	}()
	next <- "one"
	b.eventually("somebody waits", func() bool { return b.waits.Load() == 1 })
	b.crash()
	// Trap 16: whoever waited learns that the plugin died, and of no exit.
	if err := <-waiting; !errors.Is(err, host.ErrPluginGone) {
		t.Errorf("pending wait: %v", err)
	}
	for range 2 { // the second is the reattach case: known already
		if err := b.host.RecoverTask(b.ctx(), h); err != nil {
			t.Fatal(err)
		}
	}
	b.eventually("output is followed", func() bool { return b.outputs.resumed() == 1 })
	run := RunID(TaskID(tc.ID))
	b.eventually("the control plane is back", func() bool {
		b.control.mu.Lock()
		defer b.control.mu.Unlock()
		return slices.Equal(b.control.resumed, []uuid.UUID{run})
	})
	st, err := b.host.InspectTask(b.ctx(), tc.ID)
	if err != nil || st.State != host.TaskRunning || st.Attributes["sandbox"] != refOf(tc) {
		t.Errorf("inspect: %+v, %v", st, err)
	}
	next <- "two"
	next <- "end"
	if r := b.wait(tc.ID); r.ExitCode != 7 {
		t.Errorf("exit: %+v", r)
	}
	if out, _ := b.outputs.printed(tc.ID); !strings.HasSuffix(out, "two\n") {
		t.Errorf("printed %q", out)
	}
	if n := len(slices.DeleteFunc(b.ops(refOf(tc)), func(op string) bool { return op != "CreateSandbox" })); n != 1 {
		t.Errorf("the sandbox was created %d times", n)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

// TestTrap11AgentRestart: the config block is gone from the handle.
func TestTrap11AgentRestart(t *testing.T) {
	b := newBench(t, benchOptions{})
	c := args("idle")
	c["egress"] = []any{map[string]any{"allow": []any{"a.example"}}}
	tc, h := b.start("web", c)
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h.Persisted()); err != nil {
		t.Fatal(err)
	}
	if got, ok := b.plugin().tasks.get(TaskID(tc.ID)); !ok || !slices.Equal(got.state.Allow, []string{"a.example"}) {
		t.Errorf("recovered without its policy: %+v", got)
	}
	if err := b.host.StopTask(b.ctx(), tc.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(tc.ID); r.ExitCode != 143 {
		t.Errorf("exit: %+v", r)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

// TestI5ExitWhileThePluginWasAway: the real code is delivered afterwards.
func TestI5ExitWhileThePluginWasAway(t *testing.T) {
	next := make(chan string)
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"count": counting(next)}}})
	tc, h := b.start("web", args("count"))
	b.crash()
	next <- "end"
	if err := b.host.RecoverTask(b.ctx(), h.Persisted()); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(tc.ID); r.ExitCode != 7 || r.Err != "" {
		t.Errorf("exit: %+v", r)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestRecoverOfWhatIsNotThere(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("idle"))
	b.crash()
	if err := b.fake.KillSandbox(t.Context(), refOf(tc)); err != nil {
		t.Fatal(err)
	}
	if err := b.host.RecoverTask(b.ctx(), h); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("recover: %v", err)
	}
	if _, err := b.host.InspectTask(b.ctx(), tc.ID); err == nil {
		t.Error("a task that was not recovered is known")
	}
	for _, bad := range [][]byte{nil, []byte("{"), []byte(`{"version":99}`)} {
		h := h
		h.DriverState = bad
		if err := b.host.RecoverTask(b.ctx(), h); err == nil {
			t.Errorf("recovered from %q", bad)
		}
	}
	other, oh := b.start("other", args("idle"))
	b.crash()
	h.DriverState = oh.DriverState // what is asked of one would be done to the other
	if err := b.host.RecoverTask(b.ctx(), h); err == nil || !strings.Contains(err.Error(), "another task") {
		t.Errorf("recovered with the state of another: %v", err)
	}
	b.destroy(other.ID)
	b.destroy(tc.ID)
	b.nothingLeft()
}

// TestI8EngineAwayAtRecovery: a task whose engine cannot be asked is neither
// gone nor exited; the watch rides it out.
func TestI8EngineAwayAtRecovery(t *testing.T) {
	next := make(chan string)
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"count": counting(next)}}})
	tc, h := b.start("web", args("count"))
	b.crash()
	b.fake.SetFault(func(context.Context, string, string) error { return runner.ErrUnavailable })
	if err := b.host.RecoverTask(b.ctx(), h); err != nil {
		t.Fatalf("recover: %v", err)
	}
	asked := len(b.ops(refOf(tc)))
	b.eventually("the watch asks on", func() bool { return len(b.ops(refOf(tc))) > asked+3 })
	if st, err := b.host.InspectTask(b.ctx(), tc.ID); err != nil || st.State != host.TaskRunning {
		t.Errorf("inspect: %+v, %v", st, err)
	}
	b.fake.SetFault(nil)
	next <- "end"
	if r := b.wait(tc.ID); r.ExitCode != 7 {
		t.Errorf("exit: %+v", r)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

// TestI8DestroyDuringRecovery: a recovery that a destroy ended took nothing up,
// though the engine gave it no answer.
func TestI8DestroyDuringRecovery(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("idle"))
	b.crash()
	asked := make(chan struct{})
	var first atomic.Bool
	b.fake.SetFault(func(ctx context.Context, _, _ string) error {
		if ctx.Done() == nil || !first.CompareAndSwap(false, true) {
			return nil
		}
		close(asked)
		<-ctx.Done()
		return ctx.Err()
	})
	recovered := make(chan error, 1)
	go func() { recovered <- b.host.RecoverTask(b.ctx(), h) }()
	<-asked
	if err := b.host.DestroyTask(b.ctx(), tc.ID, true); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if err := <-recovered; err == nil {
		t.Error("a task that is being destroyed was taken up")
	}
	b.nothingLeft()
}

// TestI5KeeperDies under a living plugin: the output is taken up again, and the
// exit waits for it.
func TestI5KeeperDies(t *testing.T) {
	next := make(chan string)
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"count": counting(next)}}})
	tc, _ := b.start("web", args("count"))
	next <- "one"
	b.eventually("the first line", func() bool { out, _ := b.outputs.printed(tc.ID); return out == "one\n" })
	b.outputs.die()
	b.eventually("it is taken up again", func() bool { return b.outputs.resumed() == 1 })
	next <- "two"
	b.eventually("the second line", func() bool { out, _ := b.outputs.printed(tc.ID); return out == "one\ntwo\n" })
	// And once more, just when the task ends.
	b.outputs.die()
	next <- "end"
	if r := b.wait(tc.ID); r.ExitCode != 7 {
		t.Errorf("exit %+v", r)
	}
	if out, _ := b.outputs.printed(tc.ID); !strings.HasSuffix(out, "two\n") {
		t.Errorf("printed %q", out)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestI5LostOutputIsSaid(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("idle"))
	b.outputs.lost = 4711
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h); err != nil {
		t.Fatal(err)
	}
	b.eventually("the gap is an event", func() bool {
		return slices.ContainsFunc(b.said(tc.ID), func(s string) bool { return strings.Contains(s, "4711 bytes") })
	})
	b.destroy(tc.ID)
}

// TestTrap16Shutdown: the agent stops; the task stays and nobody is told of an
// exit.
func TestTrap16Shutdown(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	waiting := make(chan error, 1)
	go func() {
		_, err := b.host.WaitTask(b.ctx(), tc.ID)
		waiting <- err
	}()
	b.eventually("somebody waits", func() bool { return b.waits.Load() == 1 })
	p := b.plugin()
	b.host.Close()
	if err := <-waiting; err == nil {
		t.Error("a shutdown completed a wait")
	}
	if list, err := b.fake.ListSandboxes(t.Context()); err != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("the task did not survive: %v, %v", list, err)
	}
	if got, _ := p.tasks.get(TaskID(tc.ID)); got != nil {
		if _, ended := got.exit(); ended {
			t.Error("an exit was made up")
		}
	}
}

// TestTrap27RecoverWaitsForNothing: the log pipes have no reader yet, and an
// agent's start waits for every recovery.
func TestTrap27RecoverWaitsForNothing(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("idle"))
	b.crash()
	goOn := make(chan struct{})
	b.outputs.mu.Lock()
	b.outputs.slow = goOn
	b.outputs.mu.Unlock()
	b.control.mu.Lock()
	b.control.fail = errors.New("not yet")
	b.control.mu.Unlock()
	if err := b.host.RecoverTask(b.ctx(), h); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	b.control.mu.Lock()
	b.control.fail = nil
	b.control.mu.Unlock()
	b.eventually("the control plane is back", func() bool {
		b.control.mu.Lock()
		defer b.control.mu.Unlock()
		return len(b.control.resumed) == 1
	})
	b.destroy(tc.ID)
	b.nothingLeft()
}

// TestOldClient: one before 2.0.4, and before 1.7.
func TestOldClient(t *testing.T) {
	b := newBench(t, benchOptions{legacy: true})
	tc, h := b.start("web", args("exit", "3"))
	if r := b.wait(tc.ID); r.ExitCode != 3 {
		t.Errorf("exit: %+v", r)
	}
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h.Persisted()); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(tc.ID); r.ExitCode != 3 {
		t.Errorf("exit after recovery: %+v", r)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestWaitLeavesWithItsCaller(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	ctx, leave := context.WithCancel(b.ctx())
	left := make(chan error, 1)
	go func() {
		_, err := b.host.WaitTask(ctx, tc.ID)
		left <- err
	}()
	b.eventually("somebody waits", func() bool { return b.waits.Load() == 1 })
	leave()
	if err := <-left; err == nil {
		t.Error("a wait whose caller left has a result")
	}
	b.destroy(tc.ID)
}
