package protocol

import (
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// parked stops a task for a while: its files stay, its output goes on where it
// was, its network is there again, and nobody hears of an exit before it ends.
func (r *rig) parked(t *testing.T, class string) {
	w := r.start(t, class, "cat /kept 2>/dev/null && echo again && "+awaitGo+"[ -n \"$(ls /kept 2>/dev/null)\" ] && exit 5; "+
		"echo first run >/kept; echo started; sleep 1000")
	eventually(t, "it has started", func() bool { return w.out.has("started\n") })
	if exit, out, errs := w.verb(t, "suspend", "-cold"); exit.ExitCode != 0 || out != "parked\n" {
		t.Fatalf("park: %+v, %q, %q", exit, out, errs)
	}
	id := w.container(t)
	if c := w.containers(t)["agent"]; c.State != "exited" {
		t.Errorf("the engine says %s", c.State)
	}
	h := w.stored(t)
	r.restart(t)
	w.resume(t, h)
	st, err := r.InspectTask(deadline(t), w.ID())
	if err != nil || st.State != host.TaskRunning || st.Attributes["state"] != "parked" {
		t.Errorf("inspect: %+v, %v", st, err)
	}
	if err := execError(t, w); err == nil || !strings.Contains(err.Error(), "resume it first") {
		t.Errorf("exec: %v", err)
	}
	if exit, out, errs := w.verb(t, "resume"); exit.ExitCode != 0 || out != "running\n" {
		t.Fatalf("resume: %+v, %q, %q", exit, out, errs)
	}
	eventually(t, "it runs again", func() bool { return w.out.has("first run\nagain\n") })
	if w.container(t) != id {
		t.Error("another container")
	}
	w.stopsParked(t)
}

// stopsParked parks a task again and stops it.
func (w *work) stopsParked(t *testing.T) {
	if exit, _, errs := w.verb(t, "suspend", "-cold"); exit.ExitCode != 0 {
		t.Fatal(errs)
	}
	if err := w.rig.StopTask(deadline(t), w.ID(), 5*time.Second, ""); err != nil {
		t.Error(err)
	}
	exit, err := w.Wait(deadline(t))
	if err != nil || exit.ExitCode < 128 || exit.Err != "" {
		t.Errorf("%+v, %v", exit, err)
	}
	if got := w.out.String(); got != "started\nfirst run\nagain\n" {
		t.Errorf("output %q", got)
	}
	w.gone(t)
}
