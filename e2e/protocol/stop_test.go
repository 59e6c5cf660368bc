package protocol

import (
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestStop: how tasks end by a client's wish, and by nobody's.
func TestStop(t *testing.T) {
	r := newRig(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		t.Run("signals", func(t *testing.T) { r.stopSignals(t, class) })
		t.Run("destroy", func(t *testing.T) { r.destroy(t, class) })
		t.Run("removed by hand", func(t *testing.T) { r.removedByHand(t, class) })
	})
}

// up is a script's part that says when the traps before it are set.
const up = "echo up; while true; do sleep 0.1; done"

func (w *work) isUp(t *testing.T) {
	t.Helper()
	eventually(t, "the task is up", func() bool { return w.out.has("up\n") })
}

func (r *rig) stopSignals(t *testing.T, class string) {
	for _, c := range []struct {
		name, script, signal string
		timeout              time.Duration
		code                 int
		waits                bool // dies not before the timeout
	}{
		{"ignored", "trap '' TERM; " + up, "", 3 * time.Second, 137, true},
		{"ignored by name", "trap '' USR1; " + up, "SIGUSR1", 3 * time.Second, 137, true},
		{"handler", "trap 'exit 11' TERM; " + up, "", time.Minute, 11, false},
		{"interrupt", "trap 'exit 12' INT; " + up, "SIGINT", time.Minute, 12, false},
		{"at once", "trap '' TERM; " + up, "", 0, 137, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := r.start(t, class, c.script)
			w.isUp(t)
			begun := time.Now()
			if err := r.StopTask(deadline(t), w.ID(), c.timeout, c.signal); err != nil {
				t.Fatal(err)
			}
			w.exits(t, c.code)
			if took := time.Since(begun); c.waits && took < c.timeout {
				t.Errorf("it died after %v, before its %v were over", took, c.timeout)
			}
			w.gone(t)
		})
	}
	w := r.start(t, class, "trap 'exit 13' TERM; "+up)
	w.isUp(t)
	if err := r.StopTask(deadline(t), w.ID(), time.Second, "SIGNONSENSE"); err == nil {
		t.Error("a stop with a signal that does not exist has no error")
	}
	if err := w.Signal(deadline(t), "SIGNONSENSE"); err == nil {
		t.Error("a signal that does not exist has no error")
	}
	if s, err := r.InspectTask(deadline(t), w.ID()); err != nil || s.State != host.TaskRunning {
		t.Errorf("after refused signals: %+v, %v", s, err)
	}
	if err := w.Signal(deadline(t), "SIGTERM"); err != nil {
		t.Error(err)
	}
	w.exits(t, 13)
	if err := r.StopTask(deadline(t), w.ID(), time.Second, ""); err != nil {
		t.Errorf("stop of a task that is gone (trap 14): %v", err)
	}
}

func (r *rig) destroy(t *testing.T, class string) {
	w := r.start(t, class, up)
	w.isUp(t)
	if err := r.DestroyTask(deadline(t), w.ID(), false); err == nil || !strings.Contains(err.Error(), "running") {
		t.Errorf("destroy of a running task without force: %v", err)
	}
	if s, err := r.InspectTask(deadline(t), w.ID()); err != nil || s.State != host.TaskRunning {
		t.Errorf("after a refused destroy: %+v, %v", s, err)
	}
	for range 2 {
		if err := r.DestroyTask(deadline(t), w.ID(), true); err != nil {
			t.Error(err)
		}
	}
	if exit, err := w.Wait(deadline(t)); err != nil || exit.Successful() {
		t.Errorf("exit of a destroyed task: %+v, %v", exit, err)
	}
	if _, err := r.InspectTask(deadline(t), w.ID()); err == nil {
		t.Error("a destroyed task is still known")
	}
	w.gone(t)
}

func (r *rig) removedByHand(t *testing.T, class string) {
	w := r.start(t, class, up)
	w.isUp(t)
	if err := r.engine.ContainerRemove(deadline(t), w.container(t), container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	exit, err := w.Wait(deadline(t))
	if err != nil || exit.Successful() {
		t.Errorf("exit of a removed container: %+v, %v", exit, err)
	}
	w.gone(t)
}
