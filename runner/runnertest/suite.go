package runnertest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Suite says how to test one runner.
type Suite struct {
	// New makes the runner under test. Required.
	New func(t *testing.T) runner.Runner
	// Image holds sh, cat, true, sleep and a nc that takes -l, -p and -e.
	// Required.
	Image string
	// EgressProbe tries, from inside a running sandbox, to get anywhere but to
	// its own sidecar, and fails the test where it does. A runner that claims
	// structural egress needs one.
	EgressProbe func(t *testing.T, r runner.Runner, ref string)
	// Strict makes a check that is skipped a failure (C2): on a machine that
	// has all it takes.
	Strict bool
	// Spec completes a sandbox's specification, which has run, image and
	// class already; nil leaves it so.
	Spec func(*runner.SandboxSpec)
	// Timeout bounds each step; 0 is 30 s.
	Timeout time.Duration
}

// checks are the suite's, by their numbers in the contract.
var checks = []struct {
	name  string
	check func(*testing.T, *bench)
}{
	{"C6Capabilities", checkCapabilities},
	{"C7CreateStatusStop", checkCreateStatusStop},
	{"C8KillMissingRef", checkKillMissing},
	{"C9StructuralEgress", checkStructuralEgress},
	{"C10WaitExitCode", checkWaitExitCode},
	{"C10MainProcessExitCode", checkMainExitCode},
	{"C11InteractiveAttach", checkAttach},
	{"C12ExecStream", checkExecStream},
	{"C13LoopbackRelay", checkRelay},
	{"C21WaitNeedsAnAgent", checkWaitNeedsAgent},
	{"C21WaitHonoursContext", checkWaitContext},
	{"C21TerminalStreams", checkTerminal},
	{"C21Parallel", checkParallel},
	{"C22NothingIsListed", checkNothingListed},
	{"B6LostExecIsNotAnExit", checkLostExec},
}

// Run holds a runner to the contract. It skips a check only on a sentinel
// that says the power does not exist (C1), or where no class works at all (C5).
func Run(t *testing.T, s Suite) {
	if s.Timeout == 0 {
		s.Timeout = 30 * time.Second
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), s.Timeout)
			defer cancel()
			c.check(t, &bench{suite: s, r: s.New(t), ctx: ctx})
		})
	}
}

// skip leaves a check out for a reason that is printed, unless nothing may be
// left out.
func (b *bench) skip(t *testing.T, reason any) {
	t.Helper()
	if b.suite.Strict {
		t.Fatalf("skipped, which the suite's setting forbids: %v", reason)
	}
	t.Skip(reason)
}

// bench is one check's runner and its time.
type bench struct {
	suite Suite
	r     runner.Runner
	ctx   context.Context
}

func (b *bench) spec(class types.ConfinementClass) runner.SandboxSpec {
	spec := runner.SandboxSpec{RunID: uuid.New(), Image: b.suite.Image, ConfinementClass: class}
	if b.suite.Spec != nil {
		b.suite.Spec(&spec)
	}
	return spec
}

// create makes a sandbox that is killed when the check ends.
func (b *bench) create(t *testing.T, spec runner.SandboxSpec) string {
	t.Helper()
	sb, err := b.r.CreateSandbox(b.ctx, spec)
	if errors.Is(err, runner.ErrClassUnavailable) && len(b.capabilities(t).ConfinementClasses) == 0 {
		b.skip(t, err) // it claims nothing, so it owes nothing
	}
	if err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), b.suite.Timeout)
		defer cancel()
		if err := b.r.KillSandbox(ctx, sb.Ref); err != nil {
			t.Errorf("KillSandbox: %v", err)
		}
	})
	if want := max(spec.ConfinementClass.Rank(), 1); sb.EnforcedClass.Rank() < want {
		t.Errorf("T4: enforced %q for %q", sb.EnforcedClass, spec.ConfinementClass)
	}
	if sb.Driver != b.r.Name() || sb.Ref == "" {
		t.Errorf("handle is %+v, want driver %q and a ref", sb, b.r.Name())
	}
	return sb.Ref
}

func (b *bench) idle(t *testing.T) string {
	t.Helper()
	return b.create(t, b.spec(""))
}

func (b *bench) state(t *testing.T, ref string) runner.Status {
	t.Helper()
	st, err := b.r.Status(b.ctx, ref)
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	return st
}

func (b *bench) capabilities(t *testing.T) runner.Capabilities {
	t.Helper()
	caps, err := b.r.Capabilities(b.ctx)
	if err != nil {
		t.Fatalf("Capabilities: %v", err)
	}
	return caps
}

func checkCapabilities(t *testing.T, b *bench) {
	caps := b.capabilities(t)
	if caps.Driver != b.r.Name() {
		t.Errorf("driver %q, name %q", caps.Driver, b.r.Name())
	}
	if len(caps.ConfinementClasses) == 0 && b.suite.Strict {
		t.Error("no class works here")
	}
	if !slices.IsSortedFunc(caps.ConfinementClasses, func(a, b types.ConfinementClass) int { return a.Rank() - b.Rank() }) {
		t.Errorf("classes %v are not listed weakest first", caps.ConfinementClasses)
	}
	for _, class := range caps.ConfinementClasses {
		if caps.Resolved[class] == "" {
			t.Errorf("class %s is enforced by nothing", class)
		}
		ref := b.create(t, b.spec(class))
		if code := b.exec(t, ref, "true"); code != 0 {
			t.Errorf("class %s: true exits %d", class, code)
		}
	}
	for _, class := range append(types.Classes(), "CC9", "cc1") {
		if slices.Contains(caps.ConfinementClasses, class) {
			continue
		}
		sb, err := b.r.CreateSandbox(b.ctx, b.spec(class))
		if !errors.Is(err, runner.ErrClassUnavailable) && !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("class %q: %+v, %v; want ErrClassUnavailable, never another class", class, sb, err)
		}
	}
}

// exec runs argv to its end and returns its code.
func (b *bench) exec(t *testing.T, ref string, argv ...string) int {
	t.Helper()
	s, err := b.r.ExecStream(b.ctx, ref, runner.ExecSpec{Argv: argv})
	if err != nil {
		t.Fatalf("ExecStream %q: %v", argv, err)
	}
	defer s.Close()
	s.Stdin.Close()
	go io.Copy(io.Discard, s.Stderr)
	if _, err := io.Copy(io.Discard, s.Stdout); err != nil {
		t.Errorf("stdout of %q: %v", argv, err)
	}
	code, err := s.Wait()
	if err != nil {
		t.Errorf("wait for %q: %v", argv, err)
	}
	return code
}

func checkCreateStatusStop(t *testing.T, b *bench) {
	ref := b.idle(t)
	if st := b.state(t, ref); st.State != types.StateRunning || st.ExitCode != nil {
		t.Errorf("after create: %+v, want RUNNING", st)
	}
	for i := range 2 {
		if err := b.r.StopSandbox(b.ctx, ref); err != nil {
			t.Errorf("stop %d: %v", i+1, err)
		}
	}
	if st := b.state(t, ref); st.State != types.StateStopped || st.ExitCode != nil {
		t.Errorf("once gone: %+v, want STOPPED without a code", st)
	}
	if err := b.r.KillSandbox(b.ctx, ref); err != nil {
		t.Errorf("kill of what is gone: %v", err)
	}
}

func checkKillMissing(t *testing.T, b *bench) {
	// A ref of the right form whose sandbox is gone.
	ref := b.idle(t)
	if err := b.r.KillSandbox(b.ctx, ref); err != nil {
		t.Fatal(err)
	}
	if err := b.r.KillSandbox(b.ctx, ref); err != nil {
		t.Errorf("kill: %v", err)
	}
	if err := b.r.StopSandbox(b.ctx, ref); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := b.r.Wait(b.ctx, ref); err == nil {
		t.Error("wait for what is gone is no error")
	}
	if _, err := b.r.ExecStream(b.ctx, ref, runner.ExecSpec{Argv: []string{"true"}}); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("exec in what is gone: %v, want ErrNotFound", err)
	}
}

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

func checkLostExec(t *testing.T, b *bench) {
	ref := b.idle(t)
	if st, err := b.r.AgentStatus(b.ctx, ref, strings.Repeat("0", 64)); err == nil {
		t.Errorf("an unknown exec in a living sandbox is %+v, want an error", st)
	}
}

func checkParallel(t *testing.T, b *bench) {
	ref := b.idle(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if code := b.exec(t, ref, "sh", "-c", "exit 7"); code != 7 {
				t.Errorf("exit code %d, want 7", code)
			}
		})
		wg.Go(func() {
			if _, err := b.r.Status(b.ctx, ref); err != nil {
				t.Errorf("Status: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := b.r.Capabilities(b.ctx); err != nil {
				t.Errorf("Capabilities: %v", err)
			}
		})
	}
	wg.Wait()
}
