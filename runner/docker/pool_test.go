package docker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// slotCount is how many slots are in each state.
func (w *fakeWorld) slotCount(t *testing.T) map[slotState]int {
	t.Helper()
	all, err := w.slots().list()
	if err != nil {
		t.Fatal(err)
	}
	n := map[slotState]int{}
	for _, e := range all {
		n[e.State]++
	}
	return n
}

// K17: of many that want the same few slots each slot is given to one.
func TestK17SlotIsGivenOnce(t *testing.T) {
	table := slotTable{newFakeWorld(t).dir}
	const slots, starts = 5, 40
	for range slots {
		id := uuid.New()
		if err := errors.Join(table.add(id), table.made(slot{ID: id, Holder: "h"})); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	var given atomic.Int64
	for range starts {
		all.Go(func() {
			warm, err := table.list(slotWarm)
			if err != nil {
				t.Error(err)
			}
			for _, e := range warm {
				run := uuid.New()
				got, ok, err := table.move(e, slotGiven, run)
				if err != nil {
					t.Error(err)
				}
				if !ok {
					continue
				}
				given.Add(1)
				if s, err := table.load(got); err != nil || s.ID != e.ID || s.Holder != "h" {
					t.Errorf("%+v, %v", s, err)
				}
				if back, ok, err := table.of(run); !ok || err != nil || back != got {
					t.Errorf("of: %+v, %v, %v", back, ok, err)
				}
				return
			}
		})
	}
	all.Wait()
	if given.Load() != slots {
		t.Errorf("%d slots were given %d times", slots, given.Load())
	}
	if left, err := table.list(slotWarm); err != nil || len(left) > 0 {
		t.Errorf("still warm: %v, %v", left, err)
	}
}

func TestSlotFileNames(t *testing.T) {
	id, run := uuid.New(), uuid.New()
	for _, e := range []slotEntry{{ID: id, State: slotMaking}, {ID: id, State: slotWarm}, {ID: id, State: slotOld}, {id, slotGiven, run}} {
		if got, ok := parseSlot(e.file()); !ok || got != e {
			t.Errorf("%s: %+v, %v", e.file(), got, ok)
		}
	}
	for _, name := range []string{"", "x", id.String(), id.String() + "@", id.String() + "@x", id.String() + ".warmer", ".new-123"} {
		if e, ok := parseSlot(name); ok {
			t.Errorf("%q is %+v", name, e)
		}
	}
}

// K17: a start with a slot makes the agent and nothing else, in the holder's
// namespace, and all of the slot goes with the run.
func TestK17StartFromThePool(t *testing.T) {
	for _, class := range []types.ConfinementClass{types.CC1, types.CC2} {
		w := newFakeWorld(t)
		if err := w.makeSlot(t.Context()); err != nil {
			t.Fatal(err)
		}
		warm, err := w.slots().list(slotWarm)
		if err != nil || len(warm) != 1 {
			t.Fatal(warm, err)
		}
		made, err := w.slots().load(warm[0])
		if err != nil {
			t.Fatal(err)
		}
		spec := fakeSpec()
		spec.ConfinementClass = class
		w.engine.calls = nil
		if _, err := w.Launch(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		for _, call := range w.engine.calls {
			if strings.Contains(call, "Create") && call != "ContainerCreate agent" {
				t.Errorf("%s in a start from the pool", call)
			}
		}
		agent := w.engine.find(AgentName(spec.RunID))
		if got := string(agent.HostConfig.NetworkMode); got != "container:"+made.Holder || agent.Config.Labels[labelSlot] != made.ID.String() {
			t.Errorf("network %q, labels %v", got, agent.Config.Labels)
		}
		rec, err := w.dir.LoadRecord(spec.RunID)
		if err != nil || rec.NetworkID != made.NetworkID || rec.Subnet != made.Subnet.String() || w.control.listen != made.net().Plan.Sidecar {
			t.Errorf("record %+v, %v; sidecar at %v", rec, err, w.control.listen)
		}
		if _, err := os.Stat(filepath.Join(w.dir.RunDir(spec.RunID), controlFolder)); err != nil {
			t.Errorf("the control folder is not the run's: %v", err)
		}
		// Another process of this program takes it down.
		other := &Runner{opts: w.opts, api: w.api, runs: w.runs, joins: make(chan struct{}, 1)}
		if err := other.KillSandbox(t.Context(), AgentName(spec.RunID)); err != nil {
			t.Error(err)
		}
		w.nothingLeft(t, spec.RunID)
		if n := w.slotCount(t); len(n) > 0 {
			t.Errorf("slots left: %v", n)
		}
	}
}

// What a slot cannot give is started without one, and the slot stays.
func TestK17NotFromThePool(t *testing.T) {
	for name, change := range map[string]func(*runner.SandboxSpec){
		"hostname":   func(s *runner.SandboxSpec) { s.Task.Hostname = "box" },
		"sysctl":     func(s *runner.SandboxSpec) { s.Task.Sysctls = map[string]string{"net.ipv4.tcp_keepalive_time": "60"} },
		"no network": func(s *runner.SandboxSpec) { s.Task.NoNetwork = true },
	} {
		w := newFakeWorld(t)
		if err := w.makeSlot(t.Context()); err != nil {
			t.Fatal(err)
		}
		spec := fakeSpec()
		change(&spec)
		if _, err := w.Launch(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if mode := w.engine.find(AgentName(spec.RunID)).HostConfig.NetworkMode; mode.IsContainer() {
			t.Errorf("%s: network %s", name, mode)
		}
		if n := w.slotCount(t); n[slotWarm] != 1 || len(n) != 1 {
			t.Errorf("%s: slots %v", name, n)
		}
	}
}

// A slot whose holder or sidecar has died serves nobody, and a start does not
// fail for it.
func TestK17DeadSlotIsPassedOver(t *testing.T) {
	for _, dead := range []string{holderPrefix, proxyPrefix} {
		w := newFakeWorld(t)
		w.opts.PoolSize = 1
		if err := w.makeSlot(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range w.engine.containers {
			if strings.HasPrefix(c.Name, "/"+dead) {
				c.State.Running = false
			}
		}
		spec := fakeSpec()
		if _, err := w.Launch(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if n := w.slotCount(t); n[slotOld] != 1 || len(n) != 1 {
			t.Errorf("slots %v, want the dead one to be removed", n)
		}
		if warm, err := w.sweepPool(t.Context()); warm != 0 || err != nil {
			t.Errorf("swept: %d, %v", warm, err)
		}
		if err := w.KillSandbox(t.Context(), AgentName(spec.RunID)); err != nil {
			t.Error(err)
		}
		w.nothingLeft(t, spec.RunID)
	}
}

// K17, invariant 6: a new process takes warm slots over, and removes those that
// are half made, spent, of another version, too many, or whose run is gone.
func TestK17PoolIsTakenOver(t *testing.T) {
	w := newFakeWorld(t)
	w.opts.PoolSize = 2
	if err := w.tendPool(t.Context()); err != nil {
		t.Fatal(err)
	}
	warm, err := w.slots().list(slotWarm)
	if err != nil || len(warm) != 2 {
		t.Fatal(warm, err)
	}
	if err := w.tendPool(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, _ := w.slots().list(slotWarm); !slices.Equal(again, warm) {
		t.Errorf("slots %v, want the same as before: %v", again, warm)
	}

	move := func(e slotEntry, to slotState, run uuid.UUID) {
		t.Helper()
		if _, ok, err := w.slots().move(e, to, run); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	move(warm[0], slotMaking, uuid.Nil)
	move(warm[1], slotGiven, uuid.New()) // no such run
	if n, err := w.sweepPool(t.Context()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n := w.slotCount(t); len(n) > 0 {
		t.Errorf("slots %v", n)
	}
	w.nothingLeft(t, uuid.New())

	run := uuid.New()
	if err := errors.Join(w.tendPool(t.Context()), w.dir.SaveRecord(datadir.Record{RunID: run})); err != nil {
		t.Fatal(err)
	}
	warm, _ = w.slots().list(slotWarm)
	move(warm[0], slotGiven, run)
	old, err := w.slots().load(warm[1])
	if err != nil {
		t.Fatal(err)
	}
	old.Tools = "sha256:earlier"
	move(warm[1], slotMaking, uuid.Nil)
	if err := w.slots().made(old); err != nil {
		t.Fatal(err)
	}
	w.opts.PoolSize = 1
	if err := w.tendPool(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.slotCount(t); n[slotGiven] != 1 || n[slotWarm] != 1 || len(n) != 2 {
		t.Errorf("slots %v, want the run's and a new one", n)
	}
	w.opts.PoolSize = 0
	if err := errors.Join(w.tendPool(t.Context()), w.KillSandbox(t.Context(), AgentName(run))); err != nil {
		t.Error(err)
	}
	w.nothingLeft(t, run)
}

// KeepPool fills in the background, refills what is taken, leaves the warm ones
// to the next process, and is alone at it.
func TestK17KeepPool(t *testing.T) {
	w := newFakeWorld(t)
	w.opts.PoolSize = 2
	other, err := newRunner(w.opts, w.engine)
	if err != nil {
		t.Fatal(err)
	}
	warm := func(n int) func() bool {
		return func() bool { return w.slotCount(t)[slotWarm] == n }
	}
	w.KeepPool()
	w.KeepPool()
	testenv.Eventually(t, "the pool is full", warm(2))
	if _, ok, err := w.dir.TryLock(lockPool); ok || err != nil {
		t.Errorf("another process could fill the pool: %v, %v", ok, err)
	}
	spec := fakeSpec()
	if _, err := w.Launch(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the pool is full again", warm(2))
	ended := fakeSpec()
	if _, err := w.Launch(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	given, ok, err := w.slots().of(ended.RunID)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := w.KillSandbox(t.Context(), AgentName(ended.RunID)); err != nil {
		t.Error(err)
	}
	if _, err := w.dir.LoadRecord(ended.RunID); !errors.Is(err, fs.ErrNotExist) || slices.Contains(w.engine.labelled(), "container /"+AgentName(ended.RunID)) {
		t.Errorf("something of the run is left: %v", err)
	}
	testenv.Eventually(t, "the slot of the ended run is gone", func() bool {
		return w.slotCount(t)[slotWarm] == 2 && w.slotCount(t)[slotOld] == 0 && !slices.ContainsFunc(w.engine.labelled(),
			func(s string) bool { return strings.Contains(s, given.ID.String()) })
	})
	w.pool.stop()
	if n := w.slotCount(t); n[slotWarm] != 2 || n[slotGiven] != 1 {
		t.Errorf("after the end: %v", n)
	}
	other.opts.PoolSize = 1
	other.KeepPool()
	testenv.Eventually(t, "the next process shrinks it", warm(1))
	other.pool.stop()
	if err := errors.Join(w.KillSandbox(t.Context(), AgentName(spec.RunID)), w.RemovePool(t.Context())); err != nil {
		t.Error(err)
	}
	w.nothingLeft(t, spec.RunID)
}
