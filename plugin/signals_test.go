package plugin

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

func TestStopSignalsThenKills(t *testing.T) {
	deaf := make(chan struct{}, 2)
	ignore := func(ctx context.Context, p *runnertest.Process) int {
		p.Trap("SIGTERM", "SIGUSR1")
		deaf <- struct{}{}
		<-ctx.Done()
		return 1
	}
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"ignore": ignore}}})
	for _, c := range []struct {
		command, signal string
		timeout         time.Duration
		code, sig       int
	}{
		{"idle", "", time.Minute, 143, 15},
		{"idle", "SIGINT", time.Minute, 130, 2},
		{"idle", "int", time.Minute, 130, 2},
		{"ignore", "SIGUSR1", 50 * time.Millisecond, 137, 9},
		{"ignore", "", 0, 137, 9},
	} {
		tc, _ := b.start("web", args(c.command))
		if c.command == "ignore" {
			<-deaf
		}
		if err := b.host.StopTask(b.ctx(), tc.ID, c.timeout, c.signal); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if r := b.wait(tc.ID); r.ExitCode != c.code || r.Signal != c.sig {
			t.Errorf("%v: exit %+v", c, r)
		}
		if err := b.host.StopTask(b.ctx(), tc.ID, c.timeout, c.signal); err != nil {
			t.Errorf("%v: second stop: %v", c, err)
		}
		b.destroy(tc.ID)
	}
	tc, _ := b.start("web", args("idle"))
	if err := b.host.StopTask(b.ctx(), tc.ID, 0, "SIGNOPE"); err == nil || !strings.Contains(err.Error(), "no such signal") {
		t.Errorf("unknown signal: %v", err)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

// TestTrap14StopOfAnUnknownTask: an error would be retried for six minutes.
func TestTrap14StopOfAnUnknownTask(t *testing.T) {
	b := newBench(t, benchOptions{})
	if err := b.host.StopTask(b.ctx(), uuid.NewString()+"/web/00000000", time.Second, ""); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	// A task that only the engine knows is stopped all the same.
	tc, _ := b.start("web", args("idle"))
	b.crash()
	if err := b.host.StopTask(b.ctx(), tc.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	if e, err := b.fake.Exit(t.Context(), refOf(tc)); err != nil || e.Code != 143 {
		t.Errorf("exit %+v, %v", e, err)
	}
	// Not asked is not stopped.
	b.fake.SetFault(func(context.Context, string, string) error { return runner.ErrUnavailable })
	if err := b.host.StopTask(b.ctx(), uuid.NewString()+"/web/00000000", time.Second, ""); err == nil {
		t.Error("an engine that cannot be asked counts as stopped")
	}
	b.fake.SetFault(nil)
	b.destroy(tc.ID)
	b.nothingLeft()
}

func TestK11Signals(t *testing.T) {
	got := make(chan string, 4)
	prog := func(ctx context.Context, p *runnertest.Process) int {
		sigs := p.Trap("SIGHUP", "SIGUSR1")
		got <- "ready"
		for {
			select {
			case s := <-sigs:
				got <- s
			case <-ctx.Done():
				return 1
			}
		}
	}
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"catch": prog}}})
	tc, _ := b.start("web", args("catch"))
	<-got
	for _, s := range []string{"SIGHUP", "usr1"} {
		if err := b.host.SignalTask(b.ctx(), tc.ID, s); err != nil {
			t.Fatal(err)
		}
		if had := <-got; !strings.HasSuffix(had, strings.ToUpper(s)) {
			t.Errorf("signal %s arrived as %s", s, had)
		}
	}
	for _, s := range []string{"", "SIGNOPE", "9"} {
		if err := b.host.SignalTask(b.ctx(), tc.ID, s); err == nil {
			t.Errorf("signal %q was taken", s)
		}
	}
	if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGSTOP"); err != nil {
		t.Fatal(err)
	}
	if list, _ := b.fake.ListSandboxes(t.Context()); !list[0].Suspended {
		t.Error("SIGSTOP did not freeze the sandbox")
	}
	if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGTERM"); err == nil || !strings.Contains(err.Error(), "resume it first") {
		t.Errorf("a frozen task took a signal that is to end it: %v", err)
	}
	// A frozen task stops all the same.
	if err := b.host.StopTask(b.ctx(), tc.ID, time.Minute, ""); err != nil {
		t.Fatal(err)
	}
	b.wait(tc.ID)
	if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGHUP"); err == nil {
		t.Error("an exited task took a signal")
	}
	if err := b.host.SignalTask(b.ctx(), "nobody", "SIGHUP"); err == nil {
		t.Error("an unknown task took a signal")
	}
}
