package runnertest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

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

func checkLostExec(t *testing.T, b *bench) {
	ref := b.idle(t)
	if st, err := b.r.AgentStatus(b.ctx, ref, strings.Repeat("0", 64)); err == nil {
		t.Errorf("an unknown exec in a living sandbox is %+v, want an error", st)
	}
}

func checkParallel(t *testing.T, b *bench) {
	ref := b.idle(t)
	// Where there are streams one is open all the while, so that the others are
	// beside it however fast each of them is over.
	beside, err := b.r.ExecStream(b.ctx, ref, runner.ExecSpec{Argv: []string{"cat"}})
	switch {
	case err == nil:
		defer beside.Close()
	case !errors.Is(err, runner.ErrExecStreamUnsupported):
		t.Errorf("ExecStream: %v", err)
	}
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
