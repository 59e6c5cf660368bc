package docker

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// eachNetwork runs a test under every runtime, with sandboxes whose network is
// their own and with sandboxes from the pool.
func eachNetwork(t *testing.T, test func(t *testing.T, runtime string, w *world)) {
	eachRuntime(t, func(t *testing.T, rt string) {
		for _, pooled := range []bool{false, true} {
			t.Run(map[bool]string{false: "own", true: "pooled"}[pooled], func(t *testing.T) {
				w := newWorld(t)
				w.assumeWorks(t, classFor(rt), rt)
				w.pooled = pooled
				test(t, rt, w)
			})
		}
	})
}

// nameOf is what a run's network and sidecar are named after.
func (w *world) nameOf(t *testing.T, run uuid.UUID) uuid.UUID {
	t.Helper()
	id, err := w.netOf(run)
	if err != nil {
		t.Fatal(err)
	}
	if w.pooled == (id == run) {
		t.Fatalf("pooled %v, and the network of run %s is %s's", w.pooled, run, id)
	}
	return id
}

func (w *world) networkOf(t *testing.T, run uuid.UUID) string {
	t.Helper()
	return w.netID(t, NetworkName(w.nameOf(t, run)))
}

func (w *world) sidecarAddress(t *testing.T, run uuid.UUID) netip.Addr {
	t.Helper()
	return w.address(t, ProxyName(w.nameOf(t, run)), w.networkOf(t, run))
}

// TestK17PooledSandboxIsConfined: what a process of a pooled sandbox sees of its
// confinement is what any other sees, and so is its own name.
func TestK17PooledSandboxIsConfined(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		script := sh("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; hostname; cat /proc/sys/net/ipv6/conf/all/disable_ipv6 /proc/net/if_inet6 | grep -v ' lo$'; ls /sys/class/net; cut -d' ' -f2 /proc/net/route; touch /etc/hosts || echo read-only; sed 's/10[.][0-9.]*/IP/' /etc/hosts /etc/resolv.conf")
		seen := map[bool]string{}
		for _, w.pooled = range []bool{false, true} {
			ref := w.startedSandbox(t, specFor(t, rt))
			x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: script})
			if err != nil {
				t.Fatal(err)
			}
			seen[w.pooled] = drain(x, nil).stdout
		}
		if seen[true] != seen[false] || !strings.Contains(seen[true], "CapEff:\t0000000000000000") || !strings.Contains(seen[true], "\nagent\n") {
			t.Errorf("pooled:\n%s\nof its own:\n%s", seen[true], seen[false])
		}
	})
}

// TestK17PooledSandboxStartsAgain: parked and started, it reaches its sidecar
// again. Under gVisor that takes another network namespace.
func TestK17PooledSandboxStartsAgain(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		w.pooled = true
		spec := specFor(t, rt)
		ref := w.startedSandbox(t, spec)
		target := "tcp:" + netip.AddrPortFrom(w.sidecarAddress(t, spec.RunID), 3128).String()
		for range 2 {
			if got := w.reached(t, ref, target)[target]; !got.Reached || got.Detail != "connected" {
				t.Fatalf("the sidecar is not reached: %+v", got)
			}
			if err := w.Park(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			if err := w.Start(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestK17DeadHolderCutsTheNetwork: a sandbox whose holder is killed has no
// network any more, and can be taken down all the same.
func TestK17DeadHolderCutsTheNetwork(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		w.pooled = true
		spec := specFor(t, rt)
		ref := w.startedSandbox(t, spec)
		target := "tcp:" + netip.AddrPortFrom(w.sidecarAddress(t, spec.RunID), 3128).String()
		zero := 0
		if err := w.cl.ContainerStop(t.Context(), HolderName(w.nameOf(t, spec.RunID)), container.StopOptions{Timeout: &zero}); err != nil {
			t.Fatal(err)
		}
		if got := w.netprobe(t, ref, recorderTarget, target)[target]; got.Reached {
			t.Errorf("reached: %+v", got)
		}
	})
}
