package protocol

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// parkKilled: the plugin is killed when it has noted that a task is to be parked
// and the task has not stopped yet. The next one parks it, no exit of the task's
// comes of it, and a resume starts it again.
func (r *rig) parkKilled(t *testing.T, class string) {
	// It takes no notice of being told to end, so the park takes its time.
	w := r.start(t, class, "[ -e /kept ] && echo again && "+awaitGo+"[ -e /kept ] && exit 6; touch /kept; trap '' TERM; echo started; sleep 1000")
	eventually(t, "it has started", func() bool { return w.out.has("started\n") })
	pid := w.process(t)
	parking := make(chan struct{})
	go func() {
		defer close(parking)
		var out output // the answer is lost with the plugin
		w.Exec(deadline(t), host.ExecRequest{Command: []string{"wardyn", "suspend", "-cold"}, Stdout: &out, Stderr: &out})
	}()
	mark := filepath.Join(r.data, "parked", w.run(t)+".json")
	eventually(t, "the mark", func() bool { _, err := os.Stat(mark); return err == nil })
	if w.process(t) != pid || w.containers(t)["agent"].State != "running" {
		t.Fatal("it had stopped before the plugin was killed, so this shows nothing")
	}
	kill(t, r.Pid())
	<-parking
	eventually(t, "it is parked", func() bool {
		st, err := r.InspectTask(deadline(t), w.ID())
		return err == nil && st.State == host.TaskRunning && st.Attributes["state"] == "parked"
	})
	if c := w.containers(t)["agent"]; c.State != "exited" {
		t.Errorf("it is parked, and the engine says %s", c.State)
	}
	if exit, out, errs := w.verb(t, "resume"); exit.ExitCode != 0 || out != "running\n" {
		t.Fatalf("resume: %+v, %q, %q", exit, out, errs)
	}
	eventually(t, "it runs again", func() bool { return w.out.has("started\nagain\n") })
	w.release(t)
	w.exits(t, 6)
	w.gone(t)
}
