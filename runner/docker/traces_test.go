package docker

import (
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// K3: what a run has is found whole, and gone once it is removed.
func TestK3TracesOfARun(t *testing.T) {
	w := newFakeWorld(t)
	ref, run := w.made(t)
	got := w.traces(t)
	if len(got.Runs) != 1 || got.Runs[0].Run != run || got.Runs[0].Ref != ref || len(got.Strangers) > 0 {
		t.Fatalf("traces %+v", got)
	}
	parts := slices.Sorted(slices.Values(got.Runs[0].Parts))
	if want := []string{"container", "lease", "network", "record", "run directory", "sidecar"}; !slices.Equal(parts, want) {
		t.Errorf("parts %q, want %q", parts, want)
	}
	if err := w.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if got := w.traces(t); len(got.Runs) > 0 {
		t.Errorf("after the removal: %+v", got)
	}
}

// K3: label, name and proof together are not enough without the data dir, and
// labels alone are worth nothing: such objects are told of.
func TestK3Strangers(t *testing.T) {
	w := newFakeWorld(t)
	run := uuid.New()
	proven, unproven := AgentName(run), AgentName(uuid.New())
	create := func(name string, labels map[string]string) {
		if _, err := w.engine.ContainerCreate(t.Context(), &container.Config{Image: "sha256:agent", Labels: labels}, &container.HostConfig{}, &network.NetworkingConfig{}, nil, name); err != nil {
			t.Fatal(err)
		}
	}
	create(proven, w.reserved(proven, componentAgent))
	stolen := w.reserved(proven, componentAgent)
	create(unproven, stolen)
	create("somebody", stolen)
	create("another-installation", map[string]string{labelInstance: "ffffffff"})
	if _, err := w.engine.NetworkCreate(t.Context(), "net", network.CreateOptions{
		Labels: stolen, EnableIPv6: new(bool), IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.9.9.0/29"}}},
	}); err != nil {
		t.Fatal(err)
	}
	got := w.traces(t)
	want := []string{"container " + proven, "container " + unproven, "container somebody", "network net"}
	slices.Sort(want)
	if len(got.Runs) > 0 || !slices.Equal(got.Strangers, want) {
		t.Errorf("runs %+v, strangers %q; want %q", got.Runs, got.Strangers, want)
	}
}

// A run that is being made is nobody's leftover.
func TestK3NoTraceOfACreation(t *testing.T) {
	w := newFakeWorld(t)
	_, run := w.made(t)
	_, end, err := w.making.begin(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.traces(t); len(got.Runs) > 0 {
		t.Errorf("traces %+v", got)
	}
	end()
	if got := w.traces(t); len(got.Runs) != 1 {
		t.Errorf("traces %+v", got)
	}
}

func (w *fakeWorld) traces(t *testing.T) runner.Traces {
	t.Helper()
	got, err := w.Traces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}
