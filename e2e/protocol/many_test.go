package protocol

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestTwoTasksOfOneGroup: one allocation, two tasks, an exec in each. They share
// a folder and no network.
func TestTwoTasksOfOneGroup(t *testing.T) {
	r := newRig(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		id := uuid.NewString()
		var group []*work
		for _, name := range []string{"one", "two"} {
			w := r.prepare(t, class, up, func(s *host.TaskSpec) { s.Name = name })
			w.alloc.Remove()
			w.at.ID = id
			w.task(t)
			group = append(group, w)
		}
		together(t, group, func(w *work) error { return w.Start(deadline(t)) })
		together(t, group, func(w *work) error {
			res, err := r.ExecTask(deadline(t), w.ID(), []string{"/bin/sh", "-c", "echo $NOMAD_TASK_NAME > /alloc/" + w.spec.Name + "; echo $NOMAD_TASK_NAME"}, 0)
			if err == nil && string(res.Stdout) != w.spec.Name+"\n" {
				err = fmt.Errorf("exec in %s: %q", w.spec.Name, res.Stdout)
			}
			return err
		})
		res, err := r.ExecTask(deadline(t), group[0].ID(), []string{"cat", "/alloc/one", "/alloc/two"}, 0)
		if err != nil || string(res.Stdout) != "one\ntwo\n" {
			t.Errorf("the shared folder: %q, %v", res.Stdout, err)
		}
		r.checkApart(t, group[0].ID(), group[1].ID())
		together(t, group, func(w *work) error { return r.StopTask(deadline(t), w.ID(), 0, "") })
		for _, w := range group {
			w.exits(t, 137)
			w.gone(t)
		}
	})
}

// checkApart looks whether a task reaches a port of another's sandbox, which that
// one itself does.
func (r *rig) checkApart(t *testing.T, one, two string) {
	t.Helper()
	run := func(task, script string) string {
		t.Helper()
		res, err := r.ExecTask(deadline(t), task, []string{"/bin/sh", "-c", script}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(res.Stdout))
	}
	address := run(two, "/.wardyn/wardyn-rec listen tcp:0.0.0.0:7777 >/dev/null 2>&1 & hostname -i")
	probe := "/.wardyn/wardyn-rec netprobe -timeout 3s tcp:" + address + ":7777"
	eventually(t, "the task reaches its own port", func() bool { return strings.Contains(run(two, probe), `"reached":true`) })
	if got := run(one, probe); !strings.Contains(got, `"reached":false`) {
		t.Errorf("another task of the allocation is reached at %s: %s", address, got)
	}
}

// TestSixAtOnce: started and stopped together, nothing of them is left.
func TestSixAtOnce(t *testing.T) {
	r := newRig(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		var all []*work
		for range 6 {
			all = append(all, r.prepare(t, class, "trap 'exit 14' TERM; "+up))
		}
		together(t, all, func(w *work) error { return w.Start(deadline(t)) })
		for _, w := range all {
			w.isUp(t)
		}
		together(t, all, func(w *work) error { return r.StopTask(deadline(t), w.ID(), time.Minute, "") })
		for _, w := range all {
			w.exits(t, 14)
			w.gone(t)
		}
	})
}

// together does something with every task at once.
func together(t *testing.T, all []*work, do func(*work) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, w := range all {
		wg.Go(func() {
			if err := do(w); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// TestTwentyAtOnceFiveTimes: every one ran, nothing is left, and no
// subnet is lost on the way.
func TestTwentyAtOnceFiveTimes(t *testing.T) {
	r := newRig(t)
	for round := range 5 {
		var all []*work
		for range 20 {
			all = append(all, r.prepare(t, "CC1", "trap 'exit 14' TERM; "+up))
		}
		together(t, all, func(w *work) error { return w.Start(t.Context()) })
		for _, w := range all {
			w.isUp(t)
		}
		together(t, all, func(w *work) error { return r.StopTask(t.Context(), w.ID(), time.Minute, "") })
		for _, w := range all {
			w.exits(t, 14)
			w.gone(t)
		}
		leases, err := os.ReadDir(filepath.Join(r.data, "leases-runs"))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			for _, w := range all {
				if strings.Contains(l.Name(), w.run(t)) {
					t.Errorf("round %d: the subnet of %s is still leased", round, w.run(t))
				}
			}
		}
	}
}
