package docker

import (
	"slices"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// R63, C6: what is registered is really run, and what works is claimed; a
// second look answers from what is known.
func TestR63ProbeRunsEachClass(t *testing.T) {
	w := newWorld(t)
	w.Probe(t.Context())
	// A slow machine may need more than one health check's time.
	host := mustFacts(t, w.Runner)
	want := []types.ConfinementClass{}
	for _, rt := range testenv.Runtimes(t) {
		if err := w.requireClass(t.Context(), subject{classFor(rt), rt}, host); err != nil {
			t.Error(err)
		}
		want = append(want, classFor(rt))
	}
	f := w.probed(t)
	if !f.Healthy || !f.Capabilities.StructuralEgress || !slices.Equal(f.Capabilities.ConfinementClasses, want) {
		t.Errorf("%+v, want %v", f, want)
	}
	c, err := w.Capabilities(t.Context())
	if err != nil || c.Resolved[types.CC1] != "oci/runc" {
		t.Errorf("%+v, %v", c, err)
	}
}
