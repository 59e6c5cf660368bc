package protocol

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestAgentCrashingTraps asks, of each answer that would end a Nomad agent, for
// the cases in which a driver has the least to put into it: a task that runs, one
// that is frozen, one that was never there. Every answer is whole or an error. What
// the traps are is in package plugin/host.
func TestAgentCrashingTraps(t *testing.T) {
	r := newRig(t)
	pid := r.Pid()
	running := r.start(t, "CC1", hostileLines+awaitGo+"exit 3")
	frozen := r.start(t, "CC1", awaitGo)
	if err := frozen.Signal(deadline(t), "SIGSTOP"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the hostile lines", func() bool { return running.out.has("the last of them\n") })
	ids := map[string]string{"running": running.ID(), "frozen": frozen.ID(), "unknown": "never/there/00000000", "no id": ""}

	t.Run("trap 1: stats", func(t *testing.T) { r.statsOf(t, ids) })
	t.Run("trap 2: wait", func(t *testing.T) { r.waitsFor(t, ids) })
	t.Run("trap 3: exec and inspect", func(t *testing.T) { r.execsAndInspects(t, ids) })
	t.Run("trap 4: log lines", func(t *testing.T) { r.hostileImage(t) })
	t.Run("trap 5: loading on a node in trouble", func(t *testing.T) { r.loadInTrouble(t) })
	t.Run("trap 6: schema", func(t *testing.T) { r.schemas(t, running) })

	if err := frozen.Signal(deadline(t), "SIGCONT"); err != nil {
		t.Error(err)
	}
	frozen.release(t)
	frozen.exits(t, 0)
	running.release(t)
	running.exits(t, 3)
	if r.Pid() != pid || r.Launches() != 1 {
		t.Errorf("the plugin is process %d, was %d, launched %d times", r.Pid(), pid, r.Launches())
	}
}

// hostile is a log line that would end the agent that reads it.
const hostile = `{"@level":1,"@message":{},"@timestamp":[]}`

// hostileLines prints it to both streams.
const hostileLines = `echo '` + hostile + `'; echo '` + hostile + `' >&2; echo the last of them; `

// noBreach checks an answer for one trap.
func (r *rig) noBreach(t *testing.T, what string, err error, trap host.Trap) {
	t.Helper()
	var b *host.Breach
	if errors.As(err, &b) {
		t.Errorf("%s: %v", what, b)
	}
	for _, b := range r.Breaches() {
		if b.Trap == trap {
			t.Errorf("%s: breach: %v", what, &b)
		}
	}
}

// statsOf asks for the statistics of tasks that are there.
func (r *rig) statsOf(t *testing.T, ids map[string]string) {
	for _, state := range []string{"running", "frozen"} {
		id, samples := ids[state], 0
		most := limit // an engine takes its time for a first sample
		if state == "frozen" {
			most = 3 * time.Second // and there may be none
		}
		ctx, cancel := context.WithTimeout(t.Context(), most)
		err := r.TaskStats(ctx, id, 100*time.Millisecond, func(host.TaskUsage) error {
			if samples++; samples == 3 {
				cancel()
			}
			return nil
		})
		cancel()
		r.noBreach(t, state, err, host.TrapStats)
		if state == "running" && samples == 0 {
			t.Errorf("no sample of a running task: %v", err)
		}
	}
}

// waitsFor waits for tasks that were never there, and gives up waiting for one
// that runs.
func (r *rig) waitsFor(t *testing.T, ids map[string]string) {
	for _, state := range []string{"unknown", "no id"} {
		_, err := r.WaitTask(deadline(t), ids[state])
		r.noBreach(t, state, err, host.TrapWaitResult)
		if err == nil {
			t.Errorf("%s: the wait has an answer", state)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := r.WaitTask(ctx, ids["running"])
	r.noBreach(t, "given up", err, host.TrapWaitResult)
}

// execsAndInspects asks for what a result must be in, of every kind of task.
func (r *rig) execsAndInspects(t *testing.T, ids map[string]string) {
	for state, id := range ids {
		for _, argv := range [][]string{{"true"}, {"/no/such"}, {}, nil} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := r.ExecTask(ctx, id, argv, 2*time.Second)
			cancel()
			r.noBreach(t, fmt.Sprint(state, " exec ", argv), err, host.TrapResult)
		}
		s, err := r.InspectTask(deadline(t), id)
		r.noBreach(t, state+" inspect", err, host.TrapResult)
		if known := state == "running" || state == "frozen"; known != (err == nil) || known && s.ID != id {
			t.Errorf("inspect of a task that is %s: %+v, %v", state, s, err)
		}
	}
}

// hostileImage: whatever reaches the driver's log from a job, it does as text.
func (r *rig) hostileImage(t *testing.T) {
	bad := r.prepare(t, "CC1", "true", func(s *host.TaskSpec) { s.Config["image"] = hostile })
	if err := bad.Start(deadline(t)); err == nil {
		t.Error("an image of that name was found")
	}
	for _, b := range r.Breaches() {
		if b.Trap == host.TrapLogLine {
			t.Errorf("breach: %v", &b)
		}
	}
}

// schemas: a client that loads the plugin asks for the one, a task for the other.
func (r *rig) schemas(t *testing.T, running *work) {
	p, err := host.Launch(deadline(t), r.options(r.config()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, b := range append(p.Breaches(), r.Breaches()...) {
		if b.Trap == host.TrapSchema || b.Trap == host.TrapSchemaNames {
			t.Errorf("breach: %v", &b)
		}
	}
	scope := host.Scope{Env: running.Env(), Node: r.node}
	if b, err := p.EncodeTaskConfig(deadline(t), running.spec.Config, scope); err != nil || len(b) == 0 {
		t.Errorf("a task's config by its schema: %q, %v", b, err)
	}
}

// loadInTrouble: the state of a node is never an error of its configuration,
// which would keep the whole agent from starting. It is unhealthy and says why.
func (r *rig) loadInTrouble(t *testing.T) {
	for name, c := range map[string]struct{ key, value, says string }{
		"no engine":     {"endpoint", "unix://" + r.dir + "/none.sock", "none.sock"},
		"no data dir":   {"data_dir", "/proc/wardyn", "/proc/wardyn"},
		"another's dir": {"data_dir", "/usr", "/usr"},
	} {
		t.Run(name, func(t *testing.T) {
			config := r.config()
			config["data_dir"] = privateDir(t)
			config[c.key] = c.value
			o := r.options(config)
			var found prints
			o.OnFingerprint = found.add
			p, err := host.Launch(deadline(t), o)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			eventually(t, "it is unhealthy and says why", func() bool {
				f := found.last()
				return f.Health == host.Unhealthy && strings.Contains(f.Description, c.says)
			})
			for _, b := range p.Breaches() {
				t.Errorf("breach: %v", &b)
			}
		})
	}
}

// privateDir is a data dir for a plugin that gets no further than to make it.
func privateDir(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "data")
	t.Cleanup(func() {
		d, err := datadir.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		os.RemoveAll(d.RunRoot())
		if err := d.RemoveRunRoot(); err != nil {
			t.Error(err)
		}
	})
	return path
}
