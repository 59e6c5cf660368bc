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
	b.keepMark(id, parkMark{Boot: bootID(), Since: since, Stopped: stopped})
}

// markFile is where the mark of a task lies.
func (b *bench) markFile(id string) string { return markPath(b.parked, RunID(TaskID(id))) }

func (b *bench) keepMark(id string, m parkMark) {
	b.t.Helper()
	data, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(b.markFile(id), data, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) mark(id string) (m parkMark) {
	b.t.Helper()
	data, err := os.ReadFile(b.markFile(id))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return m
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

// K14: whether a process that is down is the one that was parked does not hang on
// the node's clock, which may have been set while it ran or while it was parked.
func TestK14ClockIsSetAroundAPark(t *testing.T) {
	for name, c := range map[string]struct {
		since  time.Duration // how far the mark's time is off
		again  bool          // the process was started again since
		parked bool
	}{
		"back while it ran":        {-time.Hour, false, true},
		"back while it was parked": {time.Hour, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan string)
			b := newBench(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{"count": counting(next)}}})
			tc, h := b.start("web", args("count"))
			if _, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 0 {
				t.Fatal(errs)
			}
			mark := b.mark(tc.ID)
			mark.Since = mark.Since.Add(c.since)
			if mark.Started.IsZero() {
				t.Fatal("the mark does not say when the process was started")
			}
			if c.again {
				if err := b.fake.Start(b.ctx(), refOf(tc)); err != nil {
					t.Fatal(err)
				}
				next <- "end"
				b.eventually("it has ended", func() bool {
					st, err := b.fake.AgentStatus(b.ctx(), refOf(tc), "")
					return err == nil && st.State.Terminal()
				})
			}
			b.keepMark(tc.ID, mark)
			b.crash()
			if err := b.host.RecoverTask(b.ctx(), h); err != nil {
				t.Fatal(err)
			}
			if c.parked {
				if out, errs, code := b.ask(tc.ID, "resume"); out != "running\n" || code != 0 {
					t.Errorf("resume: %q %q %d", out, errs, code)
				}
				next <- "end"
			}
			if r := b.wait(tc.ID); r.ExitCode != 7 || r.Err != "" {
				t.Errorf("exit %+v", r)
			}
			b.destroy(tc.ID)
			b.nothingLeft()
		})
	}
}

// I8: an engine that starts a parked process and does not say so has started it.
func TestI8K14ResumeOfUnknownOutcome(t *testing.T) {
	for name, started := range map[string]bool{"started": true, "not started": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, benchOptions{})
			tc, _ := b.start("web", args("idle"))
			if _, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 0 {
				t.Fatal(errs)
			}
			inner := false
			b.fake.SetFault(func(ctx context.Context, op, ref string) error {
				if op != "Start" || inner {
					return nil
				}
				if inner = true; started {
					if err := b.fake.Start(ctx, ref); err != nil {
						t.Error(err)
					}
				}
				return runner.ErrUnavailable
			})
			_, errs, code := b.ask(tc.ID, "resume")
			b.fake.SetFault(nil)
			if code == 0 {
				t.Errorf("%q %d", errs, code)
			}
			if started {
				b.eventually("it runs", func() bool { return b.state(tc.ID) == "running" && b.marks() == 0 })
			} else if b.state(tc.ID) != "parked" || b.marks() != 1 {
				t.Errorf("state %q, %d marks", b.state(tc.ID), b.marks())
			}
			if out, errs, code := b.ask(tc.ID, "resume"); out != "running\n" || code != 0 || b.marks() != 0 {
				t.Errorf("resume: %q %q %d", out, errs, code)
			}
			b.destroy(tc.ID)
			b.nothingLeft()
		})
	}
}

// A mark that cannot be written leaves nothing beside it, and the task as it was.
func TestK14MarkThatCannotBeWritten(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	if err := os.MkdirAll(filepath.Join(b.markFile(tc.ID), "in", "the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 1 || b.state(tc.ID) != "running" {
		t.Errorf("%q %d, %s", errs, code, b.state(tc.ID))
	}
	if err := os.RemoveAll(b.markFile(tc.ID)); err != nil || b.marks() != 0 {
		t.Errorf("%v, %d files left", err, b.marks())
	}
	b.destroy(tc.ID)
}
