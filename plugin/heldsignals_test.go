package plugin

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// catching tells of the signals it gets.
func catching(got chan<- string) runnertest.Program {
	return func(ctx context.Context, p *runnertest.Process) int {
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
}

// K11: a client ends a task that it can't tell of a changed template or a new
// token. A frozen task is told when it goes on, each signal once and in order,
// also by the plugin after the one that was asked.
func TestK11SignalsToAFrozenTask(t *testing.T) {
	for how, thaw := range map[string]func(b *bench, id string) error{
		"resumed": func(b *bench, id string) error { _, _, _ = b.ask(id, "resume"); return nil },
		"SIGCONT": func(b *bench, id string) error { return b.host.SignalTask(b.ctx(), id, "SIGCONT") },
		"elsewhere": func(b *bench, id string) error { // and told by the next signal that arrives
			if err := b.fake.Unpause(b.ctx(), runnertest.Ref(RunID(TaskID(id)))); err != nil {
				return err
			}
			return b.host.SignalTask(b.ctx(), id, "SIGCONT")
		},
	} {
		t.Run(how, func(t *testing.T) {
			got := make(chan string, 8)
			b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"catch": catching(got)}}})
			tc, h := b.start("web", args("catch"))
			<-got
			if _, errs, code := b.ask(tc.ID, "suspend"); code != 0 {
				t.Fatal(errs)
			}
			for _, s := range []string{"SIGUSR1", "SIGHUP", "SIGUSR1"} {
				if err := b.host.SignalTask(b.ctx(), tc.ID, s); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range []string{"SIGTERM", "SIGKILL"} {
				if err := b.host.SignalTask(b.ctx(), tc.ID, s); err == nil || !strings.Contains(err.Error(), "resume it first") {
					t.Errorf("%s to a frozen task: %v", s, err)
				}
			}
			b.crash()
			if err := b.host.RecoverTask(b.ctx(), h); err != nil {
				t.Fatal(err)
			}
			if len(got) > 0 || b.state(tc.ID) != "suspended" || b.marks() != 1 {
				t.Errorf("%d signals have arrived, state %s, %d marks", len(got), b.state(tc.ID), b.marks())
			}
			if err := thaw(b, tc.ID); err != nil {
				t.Fatal(err)
			}
			if first, second := <-got, <-got; first != "SIGUSR1" || second != "SIGHUP" || len(got) > 0 || b.marks() != 0 {
				t.Errorf("arrived: %s, %s and %d more; %d marks", first, second, len(got), b.marks())
			}
			for _, want := range []string{"Signal SIGUSR1 is kept until the task is resumed", "Signal SIGHUP, kept while the task was suspended, is sent"} {
				b.eventually(want, func() bool { return slices.Contains(b.said(tc.ID), want) })
				said := b.said(tc.ID)
				if n := len(slices.DeleteFunc(slices.Clone(said), func(s string) bool { return s != want })); n != 1 {
					t.Errorf("%q was said %d times: %q", want, n, said)
				}
			}
			b.destroy(tc.ID)
			b.nothingLeft()
		})
	}
}

// What was kept for a process goes with it, when its task is parked or destroyed.
func TestKeptSignalsGoWithTheProcess(t *testing.T) {
	got := make(chan string, 8)
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"catch": catching(got)}}})
	tc, _ := b.start("web", args("catch"))
	<-got
	frozen := func() {
		t.Helper()
		if _, errs, code := b.ask(tc.ID, "suspend"); code != 0 {
			t.Fatal(errs)
		}
		if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGHUP"); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(b.parked, "*.signals")); err != nil || len(left) != 1 {
			t.Errorf("%q, %v", left, err)
		}
	}
	frozen()
	for _, words := range [][]string{{"suspend", "-cold"}, {"resume"}} {
		if _, errs, code := b.ask(tc.ID, words...); code != 0 {
			t.Fatal(errs)
		}
	}
	if ready := <-got; ready != "ready" || len(got) > 0 || b.marks() != 0 {
		t.Errorf("%s and %d more, %d marks", ready, len(got), b.marks())
	}
	frozen()
	b.destroy(tc.ID)
	if left, err := os.ReadDir(b.parked); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	b.nothingLeft()
}

// An engine freezes a sandbox while it makes an image of it. What is signalled then
// arrives when that is over, although nobody resumes the task.
func TestSignalsDuringASnapshotArrive(t *testing.T) {
	got := make(chan string, 8)
	b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"catch": catching(got)}}})
	tc, _ := b.start("web", args("catch"))
	<-got
	ref := runnertest.Ref(RunID(TaskID(tc.ID)))
	if err := b.fake.Pause(b.ctx(), ref); err != nil {
		t.Fatal(err)
	}
	if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGHUP"); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := b.ask(tc.ID, "snapshot", "frozen"); code != 0 || len(got) > 0 {
		t.Errorf("%q, %d signals have arrived in a task that is still frozen", errs, len(got))
	}
	if err := b.fake.Unpause(b.ctx(), ref); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := b.ask(tc.ID, "snapshot", "mine"); code != 0 {
		t.Fatal(errs)
	}
	b.eventually("the signal arrives", func() bool { return len(got) > 0 })
	if s := <-got; s != "SIGHUP" || len(got) > 0 || b.marks() != 0 {
		t.Errorf("arrived: %s and %d more; %d marks", s, len(got), b.marks())
	}
}
