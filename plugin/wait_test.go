package plugin

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// rigged is a runner whose answers about an exit a test can replace.
type rigged struct {
	runner.Runner
	runner.Stopper
	runner.Signaler
	runner.UsageReader
	runner.OutputReader
	wait   func(ctx context.Context, ref string) (int, error)
	exit   func(ctx context.Context, ref string) (runner.Exit, error)
	status func(ctx context.Context, ref string) (runner.Status, error)
	deaf   bool // execs do not end with their context
}

func rig(r runner.Runner) *rigged {
	f := r.(*runnertest.Fake)
	return &rigged{Runner: r, Stopper: f, Signaler: f, UsageReader: f, OutputReader: f}
}

func (r *rigged) Wait(ctx context.Context, ref string) (int, error) {
	if r.wait != nil {
		return r.wait(ctx, ref)
	}
	return r.Runner.Wait(ctx, ref)
}

func (r *rigged) Exit(ctx context.Context, ref string) (runner.Exit, error) {
	if r.exit != nil {
		return r.exit(ctx, ref)
	}
	return r.Runner.(runner.ExitReader).Exit(ctx, ref)
}

func (r *rigged) AgentStatus(ctx context.Context, ref, id string) (runner.Status, error) {
	if r.status != nil {
		return r.status(ctx, ref)
	}
	return r.Runner.AgentStatus(ctx, ref, id)
}

func (r *rigged) ExecStream(ctx context.Context, ref string, spec runner.ExecSpec) (*runner.ExecSession, error) {
	if r.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	return r.Runner.ExecStream(ctx, ref, spec)
}

func TestExits(t *testing.T) {
	for _, c := range []struct {
		name      string
		exit      runner.Exit
		code, sig int
		oom       bool
		err       string
		event     string
	}{
		{"by itself", runner.Exit{Code: 9}, 9, 0, false, "", ""},
		{"by signal", runner.Exit{Code: 143, Signal: 15}, 143, 15, false, "", ""},
		{"K12 killed for memory", runner.Exit{Code: 137, Signal: 9, OOMKilled: true}, 137, 9, true, "raise memory", ""},
		{"K12 a child killed for memory", runner.Exit{Code: 0, ChildOOM: true}, 0, 0, false, "", "killed for memory"},
		{"K1 the runtime crashed", runner.Exit{Code: 2, Err: runner.ErrRuntimeCrashed}, -1, 0, false, "runtime crashed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r *rigged
			b := newBench(t, benchOptions{wrap: func(in runner.Runner) runner.Runner { r = rig(in); return r }})
			r.exit = func(context.Context, string) (runner.Exit, error) { return c.exit, nil }
			tc, _ := b.start("web", args("true"))
			got := b.wait(tc.ID)
			if got.ExitCode != c.code || got.Signal != c.sig || got.OOMKilled != c.oom || !strings.Contains(got.Err, c.err) || c.err == "" && got.Err != "" {
				t.Errorf("got %+v", got)
			}
			if c.event != "" {
				b.eventually("the event", func() bool {
					return slices.ContainsFunc(b.said(tc.ID), func(s string) bool { return strings.Contains(s, c.event) })
				})
			}
			b.destroy(tc.ID)
		})
	}
}

// TestI8WaitThatCannotAsk: only the engine's word is an exit.
func TestI8WaitThatCannotAsk(t *testing.T) {
	var r *rigged
	b := newBench(t, benchOptions{wrap: func(in runner.Runner) runner.Runner { r = rig(in); return r }})
	var tries atomic.Int32
	r.wait = func(context.Context, string) (int, error) {
		tries.Add(1)
		return 0, errors.New("unexpected EOF")
	}
	r.status = func(context.Context, string) (runner.Status, error) {
		if tries.Load() < 4 {
			return runner.Status{}, runner.ErrUnavailable
		}
		code := 5
		return runner.Status{State: types.StateFailed, ExitCode: &code}, nil
	}
	r.exit = func(context.Context, string) (runner.Exit, error) { return runner.Exit{}, runner.ErrNotFound }
	tc, _ := b.start("web", args("true"))
	if got := b.wait(tc.ID); got.ExitCode != 5 || got.Err != "" || tries.Load() < 4 {
		t.Errorf("got %+v after %d tries", got, tries.Load())
	}
}

func TestSandboxRemovedByHand(t *testing.T) {
	var r *rigged
	b := newBench(t, benchOptions{wrap: func(in runner.Runner) runner.Runner { r = rig(in); return r }})
	gone := make(chan struct{})
	r.wait = func(context.Context, string) (int, error) { <-gone; return 0, runner.ErrNotFound }
	tc, _ := b.start("web", args("idle"))
	if err := b.fake.KillSandbox(t.Context(), refOf(tc)); err != nil {
		t.Fatal(err)
	}
	close(gone)
	if got := b.wait(tc.ID); got.Successful() || !strings.Contains(got.Err, "removed by somebody else") {
		t.Errorf("got %+v", got)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

// TestExitDetailsAreAskedFor: the engine may be away just when a task ends.
func TestExitDetailsAreAskedFor(t *testing.T) {
	var r *rigged
	b := newBench(t, benchOptions{wrap: func(in runner.Runner) runner.Runner { r = rig(in); return r }})
	var tries atomic.Int32
	r.exit = func(context.Context, string) (runner.Exit, error) {
		if tries.Add(1) < 3 {
			return runner.Exit{}, runner.ErrUnavailable
		}
		return runner.Exit{Code: 137, Signal: 9, OOMKilled: true}, nil
	}
	tc, _ := b.start("web", args("true"))
	if got := b.wait(tc.ID); !got.OOMKilled {
		t.Errorf("got %+v", got)
	}
}

// TestI5ExitWaitsForOutput: the exit is told when the last line is delivered.
func TestI5ExitWaitsForOutput(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.outputs.stuck = make(chan struct{})
	tc, _ := b.start("web", args("echo", "last"))
	b.eventually("the process has ended", func() bool {
		_, err := b.fake.Exit(t.Context(), refOf(tc))
		return err == nil
	})
	st, err := b.host.InspectTask(b.ctx(), tc.ID)
	if err != nil || st.State != host.TaskRunning {
		t.Errorf("the exit is known before the output: %+v, %v", st, err)
	}
	close(b.outputs.stuck)
	b.wait(tc.ID)
	if out, _ := b.outputs.printed(tc.ID); out != "last\n" {
		t.Errorf("printed %q", out)
	}
}

// TestStatsGoOn covers traps 1 and 18, and the first sample's missing rates.
func TestTrap1And18Stats(t *testing.T) {
	n := 0
	usage := func(string) runner.Usage {
		n++
		at := time.Unix(int64(n), 0)
		return runner.Usage{
			Time: at, CPUTotal: time.Duration(n) * 1500 * time.Millisecond, CPUUser: time.Duration(n) * time.Second,
			CPUSystem: time.Duration(n) * 500 * time.Millisecond, MemoryRSS: 10, MemoryCache: 20, MemoryUsage: 30,
			SwapKnown: true, MemorySwap: 1,
		}
	}
	b := newBench(t, benchOptions{fake: runnertest.Options{Usage: usage}})
	tc, _ := b.start("web", args("idle"))
	var samples []float64
	err := b.host.TaskStats(b.ctx(), tc.ID, time.Millisecond, func(u host.TaskUsage) error {
		samples = append(samples, u.CPU.Percent)
		first := len(samples) == 1
		if slices.Contains(u.CPU.Measured, "Percent") == first && slices.Contains(u.CPU.Measured, "PERCENT") == first {
			t.Errorf("sample %d measured %v", len(samples), u.CPU.Measured)
		}
		if u.Memory.RSS != 10 || u.Memory.Cache != 20 || u.Memory.Usage != 30 || u.Memory.Swap != 1 {
			t.Errorf("memory: %+v", u.Memory)
		}
		if len(samples) == 3 {
			if u.CPU.User != 100 || u.CPU.System != 50 || u.CPU.TotalTicks <= 0 {
				t.Errorf("cpu: %+v", u.CPU)
			}
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) || !slices.Equal(samples, []float64{0, 150, 150}) {
		t.Errorf("samples %v, %v", samples, err)
	}
	// Neither an engine that is away nor the end of the task ends the stream.
	b.fake.SetFault(func(_ context.Context, op, _ string) error {
		if op == "Usage" {
			return runner.ErrUnavailable
		}
		return nil
	})
	ctx, leave := context.WithCancel(b.ctx())
	ended := make(chan error, 1)
	go func() {
		ended <- b.host.TaskStats(ctx, tc.ID, time.Millisecond, func(host.TaskUsage) error { return errors.New("a sample out of nothing") })
	}()
	asked := len(b.ops(refOf(tc)))
	b.eventually("it is asked for on", func() bool { return len(b.ops(refOf(tc))) > asked+3 })
	b.destroy(tc.ID)
	select {
	case err := <-ended:
		t.Errorf("the stream ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	leave()
	<-ended
}
