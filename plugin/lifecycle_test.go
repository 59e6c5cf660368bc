package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

func refOf(tc host.TaskConfig) string { return runnertest.Ref(RunID(TaskID(tc.ID))) }

func TestLifecycle(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("sh", "-c", "echo out; echo err >&2; exit 3"))
	if h.Version < 1 || h.State != host.TaskRunning || len(h.DriverState) == 0 {
		t.Errorf("handle: %+v", h)
	}
	if r := b.wait(tc.ID); r.ExitCode != 3 || r.Signal != 0 || r.Err != "" || r.OOMKilled {
		t.Errorf("exit: %+v", r)
	}
	if out, err := b.outputs.printed(tc.ID); out != "out\n" || err != "err\n" {
		t.Errorf("printed %q and %q", out, err)
	}
	// Until it is destroyed the task answers again, at once.
	if r := b.wait(tc.ID); r.ExitCode != 3 {
		t.Errorf("second wait: %+v", r)
	}
	st, err := b.host.InspectTask(b.ctx(), tc.ID)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != host.TaskExited || st.Exit.ExitCode != 3 || st.StartedAt.IsZero() || st.CompletedAt.IsZero() ||
		st.Attributes["sandbox"] != refOf(tc) || st.Attributes["class"] != "CC2" {
		t.Errorf("inspect: %+v", st)
	}
	if err := b.host.StopTask(b.ctx(), tc.ID, 0, ""); err != nil {
		t.Errorf("stop of an exited task: %v", err)
	}
	for range 2 {
		b.destroy(tc.ID)
	}
	if _, err := b.host.WaitTask(b.ctx(), tc.ID); err == nil || !strings.Contains(err.Error(), "task not found") {
		t.Errorf("wait after destroy: %v", err)
	}
	b.nothingLeft()
}

func TestInspectOfARunningTask(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	st, err := b.host.InspectTask(b.ctx(), tc.ID)
	if err != nil {
		t.Fatal(err)
	}
	if st.State != host.TaskRunning || !st.CompletedAt.IsZero() || st.StartedAt.IsZero() || st.Exit != (host.ExitResult{}) {
		t.Errorf("inspect: %+v", st)
	}
}

func TestTrap7And8StartErrors(t *testing.T) {
	away := errors.New("no route to the engine")
	for _, c := range []struct {
		name        string
		fault       error
		config      map[string]any
		recoverable bool
		words       string
	}{
		{"engine away", errors.Join(runner.ErrUnavailable, away), args("true"), true, "no route"},
		{"pool used up", runner.ErrExhausted, args("true"), true, "exhausted"},
		{"registry away", runner.ErrUnavailable, args("true"), true, "unavailable"},
		{"unexpected", away, args("true"), true, "no route"},
		{"took too long", context.DeadlineExceeded, args("true"), true, "deadline"},
		{"refused by the engine", runner.ErrInvalid, args("true"), false, "invalid"},
		{"no such image", runner.ErrNotFound, args("true"), false, "not found"},
		{"class lost", runner.ErrClassUnavailable, args("true"), false, "class"},
		{"bad config", nil, map[string]any{"privileged": true, "confinement": "CC7"}, false, "2 reasons"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, benchOptions{})
			b.fake.SetFault(func(_ context.Context, op, _ string) error {
				if op == "CreateSandbox" {
					return c.fault
				}
				return nil
			})
			tc := b.task("web", c.config)
			_, _, err := b.host.StartTask(b.ctx(), tc)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("start: %v, want %q in it", err, c.words)
			}
			if got := host.IsRecoverable(err); got != c.recoverable {
				t.Errorf("recoverable %v, want %v: %v", got, c.recoverable, err)
			}
			b.fake.SetFault(nil)
			b.nothingLeft()
			if c.fault == nil && slices.ContainsFunc(b.fake.Calls(), func(c runnertest.Call) bool { return c.Op == "CreateSandbox" }) {
				t.Error("a refused task reached the runner")
			}
		})
	}
}

// TestI6NothingIsLeftOfAFailedStart fails each step of a start in turn.
func TestI6NothingIsLeftOfAFailedStart(t *testing.T) {
	for _, op := range []string{"ListSandboxes", "CreateSandbox", "Exec"} {
		t.Run(op, func(t *testing.T) {
			b := newBench(t, benchOptions{})
			n := 0
			b.fake.SetFault(func(_ context.Context, o, _ string) error {
				if o == op {
					n++
					return runner.ErrUnavailable
				}
				return nil
			})
			if _, _, err := b.host.StartTask(b.ctx(), b.task("web", args("idle"))); err == nil || n == 0 {
				t.Fatalf("start: %v after %d faults", err, n)
			}
			b.fake.SetFault(nil)
			b.nothingLeft()
		})
	}
	t.Run("control", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		b.control.fail = errors.New("no socket")
		if _, _, err := b.host.StartTask(b.ctx(), b.task("web", args("idle"))); err == nil || !host.IsRecoverable(err) {
			t.Errorf("start: %v", err)
		}
		b.nothingLeft()
	})
	t.Run("own folder", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		tc := b.task("web", args("idle"))
		if err := os.Symlink("/etc", filepath.Join(tc.AllocDir, "web", "wardyn")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || host.IsRecoverable(err) {
			t.Errorf("start: %v", err)
		}
		b.nothingLeft()
	})
}

// TestOneIdOneCall: two calls for one id must not both make a sandbox.
func TestOneIdOneCall(t *testing.T) {
	b := newBench(t, benchOptions{})
	entered, goOn := make(chan struct{}), make(chan struct{})
	b.fake.SetFault(func(_ context.Context, op, _ string) error {
		if op == "CreateSandbox" {
			close(entered)
			<-goOn
		}
		return nil
	})
	tc := b.task("web", args("idle"))
	started := make(chan error, 1)
	go func() {
		_, _, err := b.host.StartTask(b.ctx(), tc)
		started <- err
	}()
	<-entered
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || !strings.Contains(err.Error(), "is being started") {
		t.Errorf("second start: %v", err)
	}
	if err := b.host.RecoverTask(b.ctx(), host.TaskHandle{Config: tc}); err == nil || !strings.Contains(err.Error(), "is being started") {
		t.Errorf("recover: %v", err)
	}
	close(goOn)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	b.fake.SetFault(nil)
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestNoSlotIsFree(t *testing.T) {
	b := newBench(t, benchOptions{slots: 1})
	tc, _ := b.start("a", args("idle"))
	if _, _, err := b.host.StartTask(b.ctx(), b.task("b", args("idle"))); err == nil || !host.IsRecoverable(err) {
		t.Errorf("second task: %v", err)
	}
	b.destroy(tc.ID)
	tc, _ = b.start("b", args("idle"))
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestNetworksAreNomads(t *testing.T) {
	b := newBench(t, benchOptions{})
	c, err := b.host.Capabilities(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if !c.SendSignals || !c.Exec || c.FSIsolation != host.IsolationImage || c.MustCreateNetwork || c.NoMounts ||
		!slices.Equal(c.NetworkModes, []host.NetworkMode{host.NetworkHost, host.NetworkGroup}) {
		t.Errorf("capabilities: %+v", c)
	}
	if _, _, err := b.host.CreateNetwork(b.ctx(), "a", ""); err == nil || !strings.Contains(err.Error(), "Nomad does") {
		t.Errorf("create: %v", err)
	}
	if err := b.host.DestroyNetwork(b.ctx(), "a", nil); err == nil {
		t.Error("destroyed a network")
	}
}
