package plugin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// markParked leaves a mark as a plugin that has died in a park or a resume does.
func (b *bench) markParked(id string, since time.Time, stopped bool) {
	b.t.Helper()
	data, err := json.Marshal(parkMark{Boot: bootID(), Since: since, Stopped: stopped})
	if err == nil {
		err = os.WriteFile(filepath.Join(b.parked, RunID(TaskID(id)).String()+".json"), data, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// K14: a plugin that is killed in a park leaves a mark and a process that may run
// still. The next one brings the park to its end: a stop that was under way must
// not become an exit of the task's. That goes for an engine that is away at first.
func TestK14KilledInAPark(t *testing.T) {
	for _, away := range []bool{false, true} {
		b := newBench(t, benchOptions{})
		tc, h := b.start("web", args("idle"))
		b.markParked(tc.ID, time.Now(), false)
		b.crash()
		asked := make(chan struct{})
		if away {
			var once sync.Once
			b.fake.SetFault(func(_ context.Context, op, _ string) error {
				if op != "AgentStatus" {
					return nil
				}
				once.Do(func() { close(asked) })
				return runner.ErrUnavailable
			})
		}
		if err := b.host.RecoverTask(b.ctx(), h); err != nil {
			t.Fatal(err)
		}
		if away {
			<-asked
			if got := b.state(tc.ID); got != "parking" {
				t.Errorf("nobody knows yet: state %q", got)
			}
			b.fake.SetFault(nil)
		}
		b.eventually("it is parked", func() bool { return b.state(tc.ID) == "parked" })
		if p, err := b.fake.Status(b.ctx(), refOf(tc)); err != nil || !p.State.Terminal() {
			t.Errorf("the process: %+v, %v", p, err)
		}
		if out, errs, code := b.ask(tc.ID, "resume"); out != "running\n" || code != 0 || b.marks() != 0 {
			t.Errorf("resume: %q %q %d", out, errs, code)
		}
		b.destroy(tc.ID)
		b.nothingLeft()
	}
}

// A plugin that is killed in a resume leaves a mark of a process that was started
// again since: it runs, or has ended by itself.
func TestK14KilledInAResume(t *testing.T) {
	for name, ended := range map[string]bool{"runs": false, "ended": true} {
		next := make(chan string)
		b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"count": counting(next)}}})
		parked := time.Now() // before the process's present life
		tc, h := b.start(name, args("count"))
		b.markParked(tc.ID, parked, true)
		b.crash()
		if ended {
			next <- "end"
		}
		if err := b.host.RecoverTask(b.ctx(), h); err != nil {
			t.Fatal(err)
		}
		if !ended {
			b.eventually("it runs", func() bool { return b.state(tc.ID) == "running" && b.marks() == 0 })
			next <- "end"
		}
		if r := b.wait(tc.ID); r.ExitCode != 7 || r.Err != "" {
			t.Errorf("%s: exit %+v", name, r)
		}
		b.destroy(tc.ID)
		b.nothingLeft()
	}
}
