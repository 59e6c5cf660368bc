package protocol

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestRecovery: what a client hands back after it was away. Trap 11: the stored
// handle has no driver configuration.
func TestRecovery(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, class string) {
		t.Run("agent restart", func(t *testing.T) { r.agentRestart(t, class) })
		t.Run("living plugin", func(t *testing.T) { r.livingPlugin(t, class) })
		t.Run("exited meanwhile", func(t *testing.T) { r.exitedMeanwhile(t, class) })
		t.Run("container gone", func(t *testing.T) { r.containerGone(t, class) })
	})
}

// resume gives the task to the present client, from a stored handle.
func (w *work) resume(t *testing.T, h host.TaskHandle) {
	t.Helper()
	w.task(t)
	if err := w.Restore(deadline(t), h); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) agentRestart(t *testing.T, class string) {
	w := r.start(t, class, "echo before; "+awaitGo+"echo after; exit 6")
	eventually(t, "output", func() bool { return w.out.has("before\n") })
	h, id := w.stored(t), w.container(t)
	if len(h.Config.DriverConfig) != 0 {
		t.Fatal("a stored handle has a driver configuration")
	}
	old := w.Task
	r.restart(t)
	if _, err := old.Wait(deadline(t)); !errors.Is(err, host.ErrClosed) {
		t.Errorf("the wait of a client that is gone: %v", err)
	}
	w.resume(t, h)
	if err := r.RecoverTask(deadline(t), h); err != nil {
		t.Errorf("recover of a known task: %v", err)
	}
	if w.container(t) != id {
		t.Error("another container")
	}
	res, err := r.ExecTask(deadline(t), w.ID(), []string{"/bin/sh", "-c", "echo inside"}, 0)
	if err != nil || string(res.Stdout) != "inside\n" {
		t.Errorf("exec after recovery: %q, %v", res.Stdout, err)
	}
	w.release(t)
	w.exits(t, 6)
	if got := w.out.String(); got != "before\nafter\n" {
		t.Errorf("output %q", got)
	}
	w.gone(t)
}

// livingPlugin: the agent crashed alone. Loading asks and tries new processes
// beside the living one, which take nothing exclusive (trap 21), and the
// living one is found again as it is (trap 22).
func (r *rig) livingPlugin(t *testing.T, class string) {
	w := r.start(t, class, "echo before; "+awaitGo+"echo after; exit 7")
	eventually(t, "output", func() bool { return w.out.has("before\n") })
	h, pid := w.stored(t), r.Pid()
	r.Plugin = r.launch(t, r.Detach())
	if r.Pid() != pid {
		t.Errorf("plugin process %d, was %d", r.Pid(), pid)
	}
	w.resume(t, h)
	w.release(t)
	w.exits(t, 7)
	if got := w.out.String(); got != "before\nafter\n" {
		t.Errorf("output %q", got)
	}
}

func (r *rig) exitedMeanwhile(t *testing.T, class string) {
	w := r.start(t, class, "echo before; "+awaitGo+"echo last words; exit 9")
	eventually(t, "output", func() bool { return w.out.has("before\n") })
	h, id := w.stored(t), w.container(t)
	r.Close()
	w.release(t)
	eventually(t, "the container has exited", func() bool {
		c, err := r.engine.ContainerInspect(deadline(t), id)
		return err == nil && !c.State.Running
	})
	r.Plugin = r.launch(t, nil)
	w.resume(t, h)
	w.exits(t, 9)
	if got := w.out.String(); got != "before\nlast words\n" {
		t.Errorf("output %q", got)
	}
	w.gone(t)
}

// containerGone: it can't be recovered, and destroy cleans up by the id alone.
func (r *rig) containerGone(t *testing.T, class string) {
	w := r.start(t, class, awaitGo)
	h, id := w.stored(t), w.container(t)
	r.Close()
	if err := r.engine.ContainerRemove(deadline(t), id, container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	r.Plugin = r.launch(t, nil)
	if err := r.RecoverTask(deadline(t), h); err == nil {
		t.Error("a task without a container was recovered")
	}
	if err := r.DestroyTask(deadline(t), h.Config.ID, true); err != nil {
		t.Errorf("destroy: %v", err)
	}
	w.gone(t)
}

// TestPurgeDropsUnreadOutput: the agent is gone for good, under a task that
// has more to say than its log files take. The rig's own purge must end it.
func TestPurgeDropsUnreadOutput(t *testing.T) {
	r := newRig(t)
	w := r.prepare(t, "CC1", "yes", moreLogs)
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "output", func() bool { return w.out.Len() > 1<<20 })
	task := w.Task
	r.Close()
	if _, err := task.Wait(context.WithoutCancel(t.Context())); !errors.Is(err, host.ErrClosed) {
		t.Errorf("the wait of a client that is gone: %v", err)
	}
	w.abandoned = true
}

// TestPurgeAmidStarts: the plugin is killed while the engine is making what it
// asked for, and comes about although nobody waits for it. The rig's own purge
// must find it.
func TestPurgeAmidStarts(t *testing.T) {
	r := newRig(t)
	var starts sync.WaitGroup
	for range 4 {
		w := r.prepare(t, "CC1", up)
		w.abandoned = true
		starts.Go(func() {
			if err := w.Start(deadline(t)); err == nil {
				t.Log("a start was over before the kill")
			}
		})
	}
	id, err := os.ReadFile(filepath.Join(r.data, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	label := "wardyn.instance=" + strings.TrimSpace(string(id))
	eventually(t, "the engine makes something", func() bool { return len(testenv.Leftovers(t, r.endpoint, label)) > 0 })
	kill(t, r.Pid())
	r.Close()
	starts.Wait()
}
