package docker

import (
	"errors"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// K26: a volume is adopted only by those it was made for.
func TestK26VolumesAreOwned(t *testing.T) {
	w := newFakeWorld(t)
	labels := map[string]string{"wardyn.namespace": "blue", "note": "first"}
	if err := w.CreateVolume(t.Context(), "v", labels); err != nil {
		t.Fatal(err)
	}
	if err := w.CreateVolume(t.Context(), "v", map[string]string{"wardyn.namespace": "blue", "note": "second"}); err != nil {
		t.Errorf("adopting one's own: %v", err)
	}
	if err := w.CreateVolume(t.Context(), "v", map[string]string{"wardyn.namespace": "red"}); !errors.Is(err, runner.ErrExists) {
		t.Errorf("another namespace: %v", err)
	}
	w.engine.volumes["stranger"] = volume.Volume{Name: "stranger", Labels: w.engine.volumes["v"].Labels}
	if err := w.CreateVolume(t.Context(), "stranger", labels); !errors.Is(err, runner.ErrExists) {
		t.Errorf("a copied proof: %v", err)
	}
	if err := w.RemoveVolume(t.Context(), "stranger"); !errors.Is(err, runner.ErrExists) {
		t.Errorf("removing a stranger's: %v", err)
	}
	for range 2 {
		if err := w.RemoveVolume(t.Context(), "v"); err != nil {
			t.Error(err)
		}
	}
	if len(w.engine.volumes) != 1 {
		t.Errorf("left: %v", w.engine.volumes)
	}
}

func TestListSandboxes(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	spec.Labels = map[string]string{"wardyn.session": "s1"}
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		running, paused   bool
		status            container.ContainerState
		running2, frozen2 bool
	}{
		{false, false, container.StateCreated, false, false},
		{true, false, container.StateRunning, true, false},
		{true, true, container.StateRunning, true, true},
		{false, false, container.StateExited, false, false},
	} {
		s := w.engine.find(AgentName(spec.RunID)).State
		s.Running, s.Paused, s.Status = tc.running, tc.paused, tc.status
		l, err := w.ListSandboxes(t.Context())
		if err != nil || len(l) != 1 {
			t.Fatalf("%v, %v", l, err)
		}
		if got := l[0]; got.Ref != AgentName(spec.RunID) || got.Labels["wardyn.session"] != "s1" || got.Running != tc.running2 || got.Suspended != tc.frozen2 {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
}
