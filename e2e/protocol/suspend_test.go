package protocol

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

// burns uses a whole CPU for good and leaves a count now and then.
const burns = "i=0; while :; do i=$((i+1)); [ $((i%2000)) = 0 ] && echo $i > /local/n; done"

// frozenFor is how long a frozen task is watched. WARDYN_TEST_FROZEN takes
// another duration, for a measurement by hand.
func frozenFor(t *testing.T) time.Duration {
	d := 2 * time.Second
	if s := os.Getenv("WARDYN_TEST_FROZEN"); s != "" {
		var err error
		if d, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestK11SuspendedTask: a task that burns a CPU uses none while it is frozen, is
// the same one after its plugin was killed meanwhile, and leaves nothing when
// it is ended as it is.
func TestK11SuspendedTask(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, class string) {
		t.Run("no CPU", func(t *testing.T) { r.frozenBurner(t, class) })
		for how, end := range map[string]func(*testing.T, *work){
			"stopped": func(t *testing.T, w *work) {
				if err := r.StopTask(deadline(t), w.ID(), limit, "SIGTERM"); err != nil {
					t.Error(err)
				}
				w.exits(t, 143)
			},
			"killed": func(t *testing.T, w *work) {
				if err := r.StopTask(deadline(t), w.ID(), 0, "SIGKILL"); err != nil {
					t.Error(err)
				}
				w.exits(t, 137)
			},
			"destroyed": func(*testing.T, *work) {},
		} {
			t.Run(how, func(t *testing.T) {
				t.Parallel() // after the one before, which ends the plugin
				r.endFrozen(t, class, end)
			})
		}
	})
}

// suspended is a burner that is frozen.
func (r *rig) suspended(t *testing.T, class string) *work {
	t.Helper()
	w := r.start(t, class, burns)
	eventually(t, "it counts", func() bool { return w.count(t) != "" })
	if exit, _, errs := w.verb(t, "suspend"); exit.ExitCode != 0 {
		t.Fatalf("suspend: %q", errs)
	}
	return w
}

func (r *rig) frozenBurner(t *testing.T, class string) {
	w := r.suspended(t, class)
	id, at, count := w.container(t), w.process(t), w.count(t)
	used, d := w.cpu(t, id), frozenFor(t)
	time.Sleep(d)
	grown := w.cpu(t, id) - used
	t.Logf("%s: frozen for %v a task uses %v of CPU", class, d, grown)
	// At CC2 gVisor's own threads go on; that is its cost and no progress.
	if class == "CC1" && grown >= 50*time.Millisecond || grown > d/2 {
		t.Errorf("frozen for %v it used %v of CPU", d, grown)
	}
	if now := w.count(t); now != count {
		t.Errorf("it went on from %s to %s", count, now)
	}
	if err := syscall.Kill(r.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin is back", func() bool {
		_, err := r.InspectTask(deadline(t), w.ID())
		return err == nil
	})
	if _, out, _ := w.verb(t, "status"); !strings.Contains(out, "suspended") || w.count(t) != count {
		t.Errorf("after the plugin was killed: %q, count %s, was %s", out, w.count(t), count)
	}
	if exit, _, errs := w.verb(t, "resume"); exit.ExitCode != 0 {
		t.Fatalf("resume: %q", errs)
	}
	before, _ := strconv.Atoi(count)
	eventually(t, "it counts on from where it was", func() bool { now, _ := strconv.Atoi(w.count(t)); return now > before })
	if w.container(t) != id || w.process(t) != at {
		t.Error("another container or another process")
	}
}

func (r *rig) endFrozen(t *testing.T, class string, end func(*testing.T, *work)) {
	w := r.suspended(t, class)
	id := w.container(t)
	end(t, w)
	if err := r.DestroyTask(deadline(t), w.ID(), true); err != nil {
		t.Fatal(err)
	}
	w.gone(t)
	eventually(t, "no process of the container is left", func() bool { return len(processesOf(id)) == 0 })
}

// process is the container's main process as the host sees it.
func (w *work) process(t *testing.T) (p struct {
	Pid     int
	Started string
}) {
	t.Helper()
	c, err := w.rig.engine.ContainerInspect(deadline(t), w.container(t))
	if err != nil {
		t.Fatal(err)
	}
	p.Pid, p.Started = c.State.Pid, c.State.StartedAt
	return p
}

// cpu is the CPU time that a container has used, the runtime's own included
// where that runs in the container's control group.
func (w *work) cpu(t *testing.T, id string) time.Duration {
	t.Helper()
	resp, err := w.rig.engine.ContainerStatsOneShot(deadline(t), id)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return time.Duration(s.CPUStats.CPUUsage.TotalUsage)
}

// processesOf lists processes of the host that name a container: its shim and
// what a runtime keeps beside it.
func processesOf(id string) (out []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), id) {
			out = append(out, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}
