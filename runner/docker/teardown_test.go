package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func (w *fakeWorld) made(t *testing.T) (ref string, run uuid.UUID) {
	t.Helper()
	spec := fakeSpec()
	sb, err := w.CreateSandbox(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return sb.Ref, spec.RunID
}

// R53, R55: the agent goes first, the sidecar gets time to hand over its
// records, and a paused agent is thawed before anything (K11).
func TestR55TeardownOrder(t *testing.T) {
	w := newFakeWorld(t)
	ref, run := w.made(t)
	agent := w.engine.find(ref)
	agent.State.Running, agent.State.Paused = true, true
	w.engine.calls = nil
	if err := w.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	calls := w.engine.calls
	want := []string{"ContainerInspect agent", "ContainerUnpause agent", "ContainerKill agent"}
	if !slices.Equal(calls[:3], want) {
		t.Errorf("calls %q, want first %q", calls, want)
	}
	before := func(a, b string) {
		t.Helper()
		if i, j := slices.Index(calls, a), slices.Index(calls, b); i < 0 || j < 0 || i > j {
			t.Errorf("want %s before %s in %q", a, b, calls)
		}
	}
	before("ContainerKill agent", "ContainerStop proxy")
	before("ContainerStop proxy", "ContainerRemove proxy")
	before("ContainerRemove agent", "NetworkRemove")
	before("ContainerRemove proxy", "NetworkRemove")
	w.nothingLeft(t, run)
}

// R53: Stop gives the agent its stop signal; an id is taken as a ref too (R26).
func TestR53StopByID(t *testing.T) {
	w := newFakeWorld(t)
	ref, run := w.made(t)
	c := w.engine.find(ref)
	c.State.Running = true
	w.engine.calls = nil
	if err := w.StopSandbox(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(w.engine.calls, "ContainerStop agent") || slices.Contains(w.engine.calls, "ContainerKill agent") {
		t.Errorf("calls %q", w.engine.calls)
	}
	w.nothingLeft(t, run)
}

// C8, C21: what is gone is gone, by name and by id.
func TestC8GoneIsNil(t *testing.T) {
	w := newFakeWorld(t)
	for _, ref := range []string{AgentName(uuid.New()), "0123456789ab"} {
		if err := errors.Join(w.KillSandbox(t.Context(), ref), w.StopSandbox(t.Context(), ref)); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// R54, B8: an agent removed by hand does not hide its sidecar and network.
func TestB8AgentRemovedByHand(t *testing.T) {
	w := newFakeWorld(t)
	ref, run := w.made(t)
	delete(w.engine.containers, w.engine.find(ref).ID)
	if err := w.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t, run)
}

// R55: a stranger on the network is put off it.
func TestR55StrangerOnTheNetwork(t *testing.T) {
	w := newFakeWorld(t)
	ref, run := w.made(t)
	id := networkIDs(w.engine, networkPrefix)[0]
	w.engine.networks[id].Containers["stranger"] = network.EndpointResource{Name: "stranger"}
	if err := w.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(w.engine.calls, "NetworkDisconnect") {
		t.Error("not disconnected")
	}
	w.nothingLeft(t, run)
}

// Invariant 8, B12: an engine that fails is an error, the run is not forgotten,
// and the next attempt finishes.
func TestB12EngineFailsDuringTeardown(t *testing.T) {
	probe := newFakeWorld(t)
	ref, _ := probe.made(t)
	probe.engine.find(ref).State.Running = true
	probe.engine.calls = nil
	if err := probe.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, failed := range probe.engine.calls {
		seen[failed]++
		nth := seen[failed]
		w := newFakeWorld(t)
		ref, run := w.made(t)
		w.engine.find(ref).State.Running = true
		var mu sync.Mutex
		count := 0
		w.engine.before = func(_ int, call string) error {
			mu.Lock()
			defer mu.Unlock()
			if call == failed {
				count++
			}
			if call == failed && count == nth {
				return fmt.Errorf("made to fail: %w", errdefs.ErrUnavailable)
			}
			return nil
		}
		err := w.KillSandbox(t.Context(), ref)
		w.engine.before = nil
		// The removal that follows makes these good.
		if failed != "ContainerStop proxy" && failed != "NetworkDisconnect" {
			if !errors.Is(err, runner.ErrUnavailable) {
				t.Errorf("%s (%d): %v", failed, nth, err)
			}
			if _, err := w.dir.LoadRecord(run); err != nil {
				t.Errorf("%s (%d): the run was forgotten: %v", failed, nth, err)
			}
		}
		if err := w.KillSandbox(t.Context(), ref); err != nil {
			t.Errorf("after %s (%d) failed: %v", failed, nth, err)
		}
		w.nothingLeft(t, run)
	}
}

// R27: a caller that is gone does not keep the undo from running; here the
// engine's answer to the undo is kept from being lost, too.
func TestR27UndoErrorsAreJoined(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	boom, stuck := errors.New("boom"), errors.New("stuck")
	created := make(chan struct{}) // closed when the sidecar is there to be undone
	w.engine.before = func(_ int, call string) error {
		switch call {
		case "NetworkConnect":
			close(created)
		case "ContainerCreate agent":
			<-created
			return boom
		case "ContainerRemove proxy":
			return stuck
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := w.CreateSandbox(ctx, spec)
	if !errors.Is(err, boom) || !errors.Is(err, stuck) {
		t.Errorf("err = %v", err)
	}
	if _, err := w.dir.LoadRecord(spec.RunID); errors.Is(err, fs.ErrNotExist) {
		t.Error("forgotten although the sidecar is still there")
	}
}

// Bug 46: the engine still counts the endpoint of a container that it has
// removed already; the network goes as soon as it does not.
func TestBug46EndpointsLinger(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	sb, err := w.CreateSandbox(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	lingers := 3
	w.engine.before = func(_ int, call string) error {
		if call == "NetworkRemove" && lingers > 0 {
			lingers--
			return fmt.Errorf("network has active endpoints: %w", errdefs.ErrPermissionDenied)
		}
		return nil
	}
	if err := w.KillSandbox(t.Context(), sb.Ref); err != nil || lingers != 0 {
		t.Errorf("%v; asked again with %d refusals to come", err, lingers)
	}
	w.engine.before = nil
	w.nothingLeft(t, spec.RunID)
}

// However many runs end at once, one sidecar at a time leaves the egress
// network, before it is stopped, and none while another joins.
func TestSidecarsLeaveOneByOne(t *testing.T) {
	w := newFakeWorld(t)
	var refs []string
	for range 4 {
		sb, err := w.CreateSandbox(t.Context(), fakeSpec())
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, sb.Ref)
	}
	w.engine.calls = nil
	w.joins <- struct{}{} // somebody joins
	var all sync.WaitGroup
	for _, ref := range refs {
		all.Go(func() {
			if err := w.KillSandbox(t.Context(), ref); err != nil {
				t.Error(err)
			}
		})
	}
	testenv.Eventually(t, "all have begun", func() bool {
		w.engine.mu.Lock()
		defer w.engine.mu.Unlock()
		return countOf(w.engine.calls, "ContainerInspect proxy") >= len(refs)
	})
	w.engine.mu.Lock()
	n := countOf(w.engine.calls, "NetworkDisconnect") + countOf(w.engine.calls, "ContainerStop proxy")
	w.engine.mu.Unlock()
	if n != 0 {
		t.Errorf("%d leave while one joins", n)
	}
	<-w.joins
	all.Wait()
	if n := countOf(w.engine.calls, "NetworkDisconnect"); n != len(refs) {
		t.Errorf("%d of %d left the egress network: %q", n, len(refs), w.engine.calls)
	}
}

func countOf(calls []string, call string) (n int) {
	for _, c := range calls {
		if c == call {
			n++
		}
	}
	return n
}
