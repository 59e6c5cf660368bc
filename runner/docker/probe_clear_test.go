package docker

import (
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/network"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// A process that ended in the middle of a probe left its network and lease.
func TestRemoveProbes(t *testing.T) {
	w := newWorld(t)
	host := mustFacts(t, w.Runner)
	name := w.probeName(subject{types.CC1, "runc"})
	if _, err := w.leaseNetwork(t.Context(), name, name, func(p netpool.Plan) network.CreateOptions {
		return runNetworkOptions(p, host, w.reserved(name, componentNetwork))
	}); err != nil {
		t.Fatal(err)
	}
	if left, err := w.probesLeft(t.Context()); err != nil || !left[name] {
		t.Fatalf("%v, %v: the test left no probe", left, err)
	}
	if err := w.RemoveProbes(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := w.probesLeft(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A process that was killed while a probe tried to be heard left its socket.
func TestRemoveProbesWithTheirSockets(t *testing.T) {
	w := newFakeWorld(t)
	s := subject{types.CC2, "runsc"}
	for what, remove := range map[string]func() error{
		"a purge":        func() error { return w.RemoveProbes(t.Context()) },
		"the next probe": func() error { return w.clearProbe(s) },
	} {
		e, err := w.listen(s)
		if err != nil {
			t.Fatal(err)
		}
		e.strays.Close()
		e.socket.(*net.UnixListener).SetUnlinkOnClose(false)
		e.socket.Close()
		if err := remove(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if left, err := os.ReadDir(w.dir.RunRoot()); err != nil || len(left) > 0 {
			t.Errorf("%s left %v, %v", what, left, err)
		}
	}
}

// A process that was killed had asked the engine for a probe's network, which is
// there only when somebody has looked.
func TestRemoveProbesThatComeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		host := mustFacts(t, w.Runner)
		name := w.probeName(subject{types.CC1, "runc"})
		subnet, err := w.runs.Lease(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(Late / 2)
			w.engine.NetworkCreate(t.Context(), name, runNetworkOptions(netpool.PlanOf(subnet), host, w.reserved(name, componentNetwork)))
		}()
		if err := w.RemoveProbes(t.Context()); err != nil {
			t.Error(err)
		}
		if left, err := w.probesLeft(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}
