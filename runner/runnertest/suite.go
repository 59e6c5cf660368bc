package runnertest

import (
	"context"
	"errors"
	"io"
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
	// Timeout bounds each check; 0 is two minutes.
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
		s.Timeout = 2 * time.Minute
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
