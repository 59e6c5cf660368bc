package docker

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// K3: what a purge removes beside runs is listed: probes, slots, the egress
// network and the tools image, each only while it is there.
func TestK3BelongingsAreListed(t *testing.T) {
	w := newFakeWorld(t)
	host := mustFacts(t, w.Runner)
	_, tools, err := w.opts.Tools.Image()
	if err != nil {
		t.Fatal(err)
	}
	listed := func() string {
		t.Helper()
		all, err := w.Belongings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, "\n")
	}
	delete(w.engine.images, tools)
	if got := listed(); got != "" {
		t.Errorf("a bare installation has %s", got)
	}
	name := w.probeName(subject{types.CC1, "runc"})
	if _, err := w.leaseNetwork(t.Context(), name, name, func(p netpool.Plan) network.CreateOptions {
		return runNetworkOptions(p, host, w.reserved(name, componentNetwork))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.egressNetwork(t.Context()); err != nil {
		t.Fatal(err)
	}
	slot := uuid.New()
	if err := w.slots().add(slot); err != nil {
		t.Fatal(err)
	}
	w.engine.images[tools] = image.InspectResponse{ID: tools}
	got := listed()
	for _, want := range []string{name + " (a probe)", "slot " + slot.String(), w.EgressNetworkName(), tools} {
		if !strings.Contains(got, want) {
			t.Errorf("the list lacks %q:\n%s", want, got)
		}
	}
}
