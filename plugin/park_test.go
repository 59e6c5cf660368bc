package plugin

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// state is the word that InspectTask has for the sandbox of a task that runs.
func (b *bench) state(id string) string {
	b.t.Helper()
	st, err := b.host.InspectTask(b.ctx(), id)
	if err != nil || st.State != host.TaskRunning {
		b.t.Fatalf("%+v, %v", st, err)
	}
	return st.Attributes["state"]
}

func (b *bench) marks() int {
	left, err := filepath.Glob(b.parked + "/*")
	if err != nil {
		b.t.Fatal(err)
	}
	return len(left)
}

// K14: a parked task has no slot and no process, and is no ended one: nobody who
// waits for it hears of an exit, also across a restart of the plugin, until it
// has run again and ended by itself.
func TestK14Park(t *testing.T) {
	next := make(chan string)
	b := newBench(t, benchOptions{slots: 1, fake: runnertest.Options{Programs: map[string]runnertest.Program{"count": counting(next)}}})
	tc, h := b.start("web", args("count"))
	next <- "one"
	for range 2 { // the second finds it parked
		if out, errs, code := b.ask(tc.ID, "suspend", "-cold"); out != "parked\n" || code != 0 {
			t.Fatalf("%q %q %d", out, errs, code)
		}
	}
	other, _ := b.start("other", args("idle")) // it has the slot now
	if got := b.state(tc.ID); got != "parked" {
		t.Errorf("state %q", got)
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			b.crash()
			if err := b.host.RecoverTask(b.ctx(), h); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.host.ExecTask(b.ctx(), tc.ID, []string{"true"}, 0); err == nil || !strings.Contains(err.Error(), "it is parked; resume it first") {
			t.Errorf("exec: %v", err)
		}
		if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGTERM"); err == nil || !strings.Contains(err.Error(), "parked") {
			t.Errorf("signal: %v", err)
		}
		if err := b.host.SignalTask(b.ctx(), tc.ID, "SIGHUP"); err != nil { // else the client would end the task
			t.Errorf("signal of a change: %v", err)
		}
		if _, errs, code := b.ask(tc.ID, "suspend"); code != 1 || !strings.Contains(errs, "parked") {
			t.Errorf("freeze: %q %d", errs, code)
		}
	}
	if _, errs, code := b.ask(tc.ID, "resume"); code != 1 || !strings.Contains(errs, "no free slot") {
		t.Errorf("resume without a slot: %q %d", errs, code)
	}
	b.destroy(other.ID)
	if out, errs, code := b.ask(tc.ID, "resume"); out != "running\n" || code != 0 {
		t.Fatalf("%q %q %d", out, errs, code)
	}
	if got := b.state(tc.ID); got != "running" || b.marks() != 0 {
		t.Errorf("state %q, %d marks", got, b.marks())
	}
	next <- "two"
	next <- "end"
	if r := b.wait(tc.ID); r.ExitCode != 7 || r.Err != "" {
		t.Errorf("exit %+v", r)
	}
	if out, _ := b.outputs.printed(tc.ID); !strings.HasSuffix(out, "two\n") {
		t.Errorf("printed %q", out)
	}
	if _, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 1 || b.marks() != 0 {
		t.Errorf("park of one that has ended: %q %d", errs, code)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
}

// While it is parked a task uses nothing, and that is what a client is told: it
// shows the latest sample until another comes.
func TestK14StatsOfAParkedTask(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	if _, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 0 {
		t.Fatal(errs)
	}
	n := 0
	err := b.host.TaskStats(b.ctx(), tc.ID, time.Millisecond, func(u host.TaskUsage) error {
		if u.CPU.Percent != 0 || u.Memory.Usage != 0 || len(u.CPU.Measured) < 4 {
			t.Errorf("%+v", u)
		}
		if n++; n == 3 {
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	b.destroy(tc.ID)
}

// I8: an engine that does not say whether the park came about has not said that
// the task has ended. One that says that the process runs leaves it as it was.
func TestI8K14ParkOfUnknownOutcome(t *testing.T) {
	for name, stopped := range map[string]bool{"stopped": true, "running": false} {
		b := newBench(t, benchOptions{})
		tc, _ := b.start(name, args("idle"))
		b.fake.SetFault(func(ctx context.Context, op, ref string) error {
			if op != "Park" {
				return nil
			}
			if stopped {
				b.fake.StopProcess(ctx, ref, "SIGKILL", 0)
			}
			return runner.ErrUnavailable
		})
		_, errs, code := b.ask(tc.ID, "suspend", "-cold")
		b.fake.SetFault(nil)
		if want, marks := map[bool]string{true: "parked", false: "running"}[stopped], b.marks(); code == 0 || strings.Contains(errs, "counts as parked") != stopped || b.state(tc.ID) != want || marks > 0 != stopped {
			t.Errorf("%s: %q %d, %d marks", name, errs, code, marks)
		}
		if out, errs, code := b.ask(tc.ID, "resume"); out != "running\n" || code != 0 || b.marks() != 0 {
			t.Errorf("%s: resume: %q %q %d", name, out, errs, code)
		}
		b.destroy(tc.ID)
		b.nothingLeft()
	}
}

// A stop and a destroy of a parked task end it.
func TestK14StopOfAParkedTask(t *testing.T) {
	b := newBench(t, benchOptions{})
	for name, end := range map[string]func(id string) error{
		"stop":    func(id string) error { return b.host.StopTask(b.ctx(), id, 0, "") },
		"destroy": func(id string) error { return b.host.DestroyTask(b.ctx(), id, true) },
	} {
		tc, _ := b.start(name, args("idle"))
		if _, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 0 {
			t.Fatal(errs)
		}
		exit := make(chan host.ExitResult, 1)
		waits := b.waits.Load()
		go func() {
			r, _ := b.host.WaitTask(b.ctx(), tc.ID)
			exit <- r
		}()
		b.eventually("somebody waits", func() bool { return b.waits.Load() > waits })
		if err := end(tc.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if r := <-exit; r.ExitCode == 0 && r.Err == "" {
			t.Errorf("%s: exit %+v", name, r)
		}
		if name == "stop" {
			b.destroy(tc.ID)
		}
	}
	b.nothingLeft()
	if b.marks() != 0 {
		t.Error("a mark is left")
	}
}

// A reboot takes what a parked sandbox needs: the task is lost, and says so.
func TestK14LostWhileParked(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("idle"))
	if _, errs, code := b.ask(tc.ID, "suspend", "-cold"); code != 0 {
		t.Fatal(errs)
	}
	path := filepath.Join(b.parked, RunID(TaskID(tc.ID)).String()+".json")
	mark, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	earlier := strings.Replace(string(mark), bootID(), "00000000-0000-0000-0000-000000000000", 1)
	if err := os.WriteFile(path, []byte(earlier), 0o600); err != nil || earlier == string(mark) {
		t.Fatalf("%v; %s", err, mark)
	}
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(tc.ID); r.ExitCode != -1 || !strings.HasPrefix(r.Err, "lost while parked") {
		t.Errorf("exit %+v", r)
	}
	b.destroy(tc.ID)
	b.nothingLeft()
	if b.marks() != 0 {
		t.Error("a mark is left")
	}
}

// A mark that cannot be read decides nothing: the client asks again.
func TestK14MarkThatCannotBeRead(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("idle"))
	path := filepath.Join(b.parked, RunID(TaskID(tc.ID)).String()+".json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.crash()
	if err := b.host.RecoverTask(b.ctx(), h); err == nil {
		t.Error("recovered")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := b.host.RecoverTask(b.ctx(), h); err != nil {
		t.Fatal(err)
	}
	b.destroy(tc.ID)
}

// What was seen of a process before it was resumed says nothing about it now.
func TestK14SeenBeforeTheResume(t *testing.T) {
	var p parking
	turn := p.turns()
	if p.sitOut(t.Context(), turn) {
		t.Error("a task that was never parked is looked at again")
	}
	p.begin()
	p.end()
	if !p.sitOut(t.Context(), turn) {
		t.Error("an exit of before the resume counts")
	}
	if p.sitOut(t.Context(), p.turns()) {
		t.Error("an exit of after the resume does not count")
	}
}
