package docker

import (
	"fmt"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
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
		w.probed(t)
		runnertest.Run(t, runnertest.Suite{
			New:   func(*testing.T) runner.Runner { return w },
			Image: testenv.Image(t),
			Spec: func(s *runner.SandboxSpec) {
				if s.ConfinementClass == "" {
					s.ConfinementClass = classFor(rt)
				}
			},
			EgressProbe: w.egressProbe,
			Strict:      true,
			Timeout:     2 * time.Minute,
		})
		runnertest.CheckRecordingCapability(t, w, nil)
	})
}

// egressProbe tries every address of the host and what lies behind it.
func (w *world) egressProbe(t *testing.T, _ runner.Runner, ref string) {
	port := hostService(t)
	hosts, err := netpool.HostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{"tcp:169.254.169.254:80", "udp:192.0.2.99:53", fmt.Sprintf("udp:255.255.255.255:%d", port)}
	for _, a := range hosts {
		if a.Is4() && !a.IsLoopback() {
			targets = append(targets, allWays(a, port)...)
		}
	}
	for target, res := range w.netprobe(t, ref, recorderTarget, targets...) {
		if res.Reached {
			t.Errorf("reached %s: %s", target, res.Detail)
		}
	}
}
