package protocol

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestK36RecordingOfAKilledSandbox: however a sandbox ends, and whoever of those
// that record it dies first, the recording has all that was printed and how it
// ended.
func TestK36RecordingOfAKilledSandbox(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, class string) {
		for name, c := range map[string]struct {
			end func(*testing.T, *work)
			// cut is whether the recorder was killed, which the recording says.
			cut bool
		}{
			"by the engine": {end: func(t *testing.T, w *work) { w.engineKills(t) }},
			"for memory":    {end: func(t *testing.T, w *work) { w.release(t) }},
			"by the engine after plugin and keeper": {end: func(t *testing.T, w *work) {
				kill(t, r.Pid(), r.keeper(t))
				w.engineKills(t)
			}, cut: true},
			"by the engine after plugin, keeper and holder": {end: func(t *testing.T, w *work) {
				kill(t, r.Pid(), r.keeper(t), r.holder(t))
				w.engineKills(t)
			}, cut: true},
		} {
			t.Run(name, func(t *testing.T) { r.recordedKill(t, class, c.end, c.cut, name == "for memory") })
		}
		t.Run("as it prints, all that record", func(t *testing.T) { r.recordersKilled(t, class) })
	})
}

// recordersKilled: plugin, keeper and holder are killed together while a task
// prints. With nobody left that holds the log files open, log collection ends with
// them, and comes again with the client's next start; log and recording have every
// line then, and the recording says where it was interrupted.
func (r *rig) recordersKilled(t *testing.T, class string) {
	w := r.prepare(t, class, fmt.Sprintf("seq %d | sed 's/^/out /'; ", lines)+awaitGo+"exit 5", moreLogs, with(map[string]any{"record": true}))
	p := &printing{works: []*work{w}, third: make(chan struct{}, 1), goOn: make(chan struct{})}
	w.out.when(len(numbered("out ", lines))/3, func() { p.third <- struct{}{}; <-p.goOn })
	if err := w.Start(deadline(t)); err != nil {
		close(p.goOn)
		t.Fatal(err)
	}
	p.before = []string{w.container(t)}
	h := w.stored(t)
	p.during(t, func(t *testing.T) { kill(t, r.Pid(), r.keeper(t), r.holder(t)) })
	r.restart(t)
	w.resume(t, h)
	w.endsIn(t, fmt.Sprint("\nout ", lines, "\n"), "")
	w.wholeAfter(t, p.before[0], numbered("out ", lines), "", chunk)
	const cut = "[the recorder was interrupted here]\n"
	got := w.plainRecording(t, w.run(t))
	before, after, found := strings.Cut(got, cut)
	if !found || strings.Contains(after, cut) {
		t.Errorf("it says %d times that the recorder was interrupted", strings.Count(got, cut))
	}
	// Where it was cut within a line, the marker stands on one of its own, and the
	// line break before it is none of the task's.
	want := strings.TrimSuffix(numbered("out ", lines), "\n") + "\n[exit 5]\n"
	if whole := seam(before+after, want, chunk); whole != nil {
		if err := seam(strings.TrimSuffix(before, "\n")+after, want, chunk); err != nil {
			t.Errorf("the recording: %v; cut between lines: %v", err, whole)
		}
	}
}

// engineKills kills the sandbox's container beside the driver.
func (w *work) engineKills(t *testing.T) {
	t.Helper()
	if err := w.rig.engine.ContainerKill(deadline(t), w.container(t), "KILL"); err != nil {
		t.Error(err)
	}
}

// recordedKill has a task print more than fits into any buffer on the way, ends
// it and reads its recording.
func (r *rig) recordedKill(t *testing.T, class string, end func(*testing.T, *work), cut, memory bool) {
	const lines = 3000
	w := r.start(t, class, fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo line $i; done; ", lines)+
		awaitGo+"tail /dev/zero", func(s *host.TaskSpec) {
		s.Config["record"] = true
		s.Resources.MemoryMB = 64
	})
	last := fmt.Sprintf("line %d\n", lines)
	eventually(t, "it has printed all", func() bool { return w.out.has(last) })
	end(t, w)
	exit := w.exits(t, 137)
	if memory && !exit.OOMKilled {
		t.Errorf("%+v", exit)
	}
	got := w.plainRecording(t, w.run(t))
	if want := numbered("line ", lines); !strings.HasPrefix(strings.Replace(got, "[the recorder was interrupted here]\n", "", 1), want) {
		t.Errorf("%d bytes of recording, want the %d that were printed: ... %q", len(got), len(want), got[max(0, len(got)-200):])
	}
	if n := strings.Count(got, "[the recorder was interrupted here]"); n != map[bool]int{true: 1}[cut] {
		t.Errorf("it says %d times that the recorder was interrupted", n)
	}
	if want := map[bool]string{false: "[exit 137, signal 9]\n", true: "[exit 137, signal 9, out of memory]\n"}[memory]; !strings.HasSuffix(got, want) {
		t.Errorf("its end is %q, want %q", got[max(0, len(got)-100):], want)
	}
}
