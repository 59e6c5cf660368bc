package docker

import (
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// TestRunnerContract holds this substrate to the contract on a real engine,
// each sandbox with network and sidecar, under every runtime.
func TestRunnerContract(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		// A health check's time may be too short for a slow machine's probes.
		host := mustFacts(t, w.Runner)
		for _, rt := range testenv.Runtimes(t) {
			if err := w.requireClass(t.Context(), subject{classFor(rt), rt}, host); err != nil {
				t.Fatal(err)
			}
		}
		w.Probe(t.Context())
		runnertest.Run(t, runnertest.Suite{
			New:   func(*testing.T) runner.Runner { return w },
			Image: testenv.Image(t),
			Spec: func(s *runner.SandboxSpec) {
				if s.ConfinementClass == "" {
					s.ConfinementClass = classFor(rt)
				}
			},
			Timeout: 2 * time.Minute,
		})
	})
}
