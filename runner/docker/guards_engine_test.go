package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// bare is a container on a network like a run's, with one guard left out.
func (w *world) bare(t *testing.T, rt string, loosenNet func(*network.CreateOptions), loosen func(*containerConfig)) (string, runNetwork) {
	t.Helper()
	spec := specFor(t, rt)
	name := AgentName(spec.RunID)
	host, err := w.facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps := w.steps(spec.RunID)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := unwind(ctx, steps.all()); err != nil {
			t.Error(err)
		}
	})
	n, err := w.leaseNetwork(t.Context(), leaseOwner(spec.RunID), NetworkName(spec.RunID), func(p netpool.Plan) network.CreateOptions {
		o := runNetworkOptions(p, host, w.reserved(NetworkName(spec.RunID), componentNetwork))
		if loosenNet != nil {
			loosenNet(&o)
		}
		return o
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &build{Runner: w.Runner, plan: plan{spec: spec, class: classFor(rt), runtime: rt, host: host}, net: &n}
	if err := b.makeFiles(); err != nil {
		t.Fatal(err)
	}
	rec, err := w.opts.Tools.RecorderPath()
	if err != nil {
		t.Fatal(err)
	}
	img, err := w.inspectImage(t.Context(), spec.Image)
	if err != nil {
		t.Fatal(err)
	}
	c, err := agentConfig(agentInput{Spec: withDefaultsSpec(spec), Class: classFor(rt), Runtime: rt, Image: img, Host: host, Net: &n, Recorder: rec, Files: b.files,
		Labels: w.reservedOf(name, componentAgent, spec.RunID, classFor(rt))})
	if err != nil {
		t.Fatal(err)
	}
	if loosen != nil {
		loosen(&c)
	}
	id, err := w.createContainer(t.Context(), name, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cl.ContainerStart(t.Context(), id, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	return id, n
}

func withDefaultsSpec(s runner.SandboxSpec) runner.SandboxSpec {
	s.Resources = s.Resources.WithDefaults()
	return s
}

// S8, S11: with the bridge's own address left in place the host answers, on
// every address it has; so the probe of invariant 1 can fail.
func TestS11WithoutInhibitTheHostAnswers(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		port := hostService(t)
		id, n := w.bare(t, rt, func(o *network.CreateOptions) { delete(o.Options, optInhibit); delete(o.Options, optIsolated4) }, nil)
		openBridge(t, n.ID)
		targets := allWays(n.Plan.Gateway, port)
		for target, res := range w.reached(t, id, targets...) {
			if !res.Reached {
				t.Errorf("%s is not reached without the guard: %s", target, res.Detail)
			}
		}
		id, n = w.bare(t, rt, nil, nil)
		for target, res := range w.netprobe(t, id, recorderTarget, allWays(n.Plan.Gateway, port)...) {
			if res.Reached {
				t.Errorf("%s is reached with the guard: %s", target, res.Detail)
			}
		}
	})
}

// openBridge takes back what shutBridge sets, so that only one guard is tested.
func openBridge(t *testing.T, networkID string) {
	t.Helper()
	for _, name := range []string{"rp_filter", "arp_ignore"} {
		path := "/proc/sys/net/ipv4/conf/" + bridgeName(networkID, nil) + "/" + name
		if err := os.WriteFile(path, []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// S14: the probe that claims structural egress sees a network that leaks.
func TestS14ProbeWithholdsTheClaim(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		host, err := w.facts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := subject{classFor(rt), rt}
		defer func() {
			if err := w.clearProbe(s); err != nil {
				t.Error(err)
			}
		}()
		err = w.runProbes(t.Context(), s, host, func(p netpool.Plan, h hostFacts, l map[string]string) network.CreateOptions {
			o := runNetworkOptions(p, h, l)
			o.Options, o.Internal = nil, false
			return o
		})
		if err == nil || !strings.Contains(err.Error(), "reaches tcp:10.213.") {
			t.Errorf("err = %v", err)
		}
	})
}

// Without Internal a sandbox is routed to the host's other addresses.
func TestWithoutInternalOtherAddressesAnswer(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		port := hostService(t)
		var target string
		hosts, err := netpool.HostAddresses()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range hosts {
			if a.Is4() && !a.IsLoopback() {
				target = "tcp:" + netip.AddrPortFrom(a, port).String()
				break
			}
		}
		id, _ := w.bare(t, rt, func(o *network.CreateOptions) {
			o.Internal = false
			delete(o.Options, optInhibit)
			delete(o.Options, optIsolated4)
		}, nil)
		if res := w.reached(t, id, target)[target]; !res.Reached {
			t.Errorf("%s is not reached without the guards: %s", target, res.Detail)
		}
	})
}

// K16, F33: with IPv6 left on the host answers on its bridge's link-local
// address. gVisor has no IPv6 address either way, so there is no guard to miss.
func TestF33WithoutTheSysctlLinkLocalAnswers(t *testing.T) {
	w := newWorld(t)
	port := hostService(t)
	on := func(c *containerConfig) {
		c.HostConfig.Sysctls["net.ipv6.conf.all.disable_ipv6"] = "0"
		c.HostConfig.Sysctls["net.ipv6.conf.default.disable_ipv6"] = "0"
	}
	id, n := w.bare(t, "runc", nil, on)
	bridge := bridgeName(n.ID, nil)
	target := fmt.Sprintf("tcp6ll:[%s]:%d", bridgeLinkLocal(bridge), port)
	if res := w.netprobe(t, id, recorderTarget, target)[target]; res.Reached {
		t.Errorf("the bridge itself has IPv6 switched off: %s", res.Detail)
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+bridge+"/disable_ipv6", []byte("0"), 0); errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel has no IPv6")
	} else if err != nil {
		t.Fatal(err)
	}
	if mustFacts(t, w.Runner).isolatedGateway() {
		return // such an engine gives eth0 no IPv6 address whatever the sysctl says
	}
	testenv.Eventually(t, "the bridge's link-local address", func() bool { return hasAddress(bridge) })
	if res := w.reached(t, id, target)[target]; !res.Reached {
		t.Errorf("%s is not reached without either guard: %s", target, res.Detail)
	}
}

func hasAddress(ifname string) bool {
	b, err := os.ReadFile("/proc/net/if_inet6")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		// The fifth field has the tentative bit while the address is not usable.
		if f := strings.Fields(line); len(f) == 6 && f[5] == ifname && f[4] != "c0" && f[4] != "40" {
			return true
		}
	}
	return false
}

// K16: without enable_icc=false sidecars reach each other.
func TestK16WithoutICCNeighboursAnswer(t *testing.T) {
	w := newWorld(t)
	id1, _ := w.bare(t, "runc", nil, nil)
	id2, _ := w.bare(t, "runc", nil, nil)
	name := "wardyn_test_" + uuid.NewString()
	labels := w.reserved(name, componentNetwork)
	var n string
	for i := range 64 {
		o := egressOptions(netip.MustParsePrefix(fmt.Sprintf("10.215.%d.0/24", i)), labels)
		o.Options = map[string]string{optICC: "true"}
		resp, err := w.cl.NetworkCreate(t.Context(), name, o)
		if isOverlap(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n = resp.ID
		break
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, id := range []string{id1, id2} {
			w.cl.NetworkDisconnect(ctx, n, id, true)
		}
		if err := w.cl.NetworkRemove(ctx, n); err != nil {
			t.Error(err)
		}
	})
	for _, id := range []string{id1, id2} {
		if err := w.cl.NetworkConnect(t.Context(), n, id, &network.EndpointSettings{}); err != nil {
			t.Fatal(err)
		}
	}
	target := "tcp:" + netip.AddrPortFrom(w.address(t, id2, n), 3128).String()
	if res := w.reached(t, id1, target)[target]; !res.Reached {
		t.Errorf("%s is not reached without the guard: %s", target, res.Detail)
	}
}

// K38: io_uring is refused to a sandbox at CC1, and given without our filter on
// an engine whose own leaves it open.
func TestK38IOUringIsRefused(t *testing.T) {
	w := newWorld(t)
	program, err := os.ReadFile(testenv.Build(t, "./runner/docker/testdata/iouring"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(id string) string {
		t.Helper()
		x, err := w.ExecStream(soon(t), id, runner.ExecSpec{Argv: sh("cat > /home/agent/p && chmod +x /home/agent/p && /home/agent/p")})
		if err != nil {
			t.Fatal(err)
		}
		res := drain(x, bytes.NewReader(program))
		return res.stdout + res.stderr
	}
	id, _ := w.bare(t, "runc", nil, nil)
	if got := ask(id); got != "operation not permitted\n" {
		t.Errorf("in a sandbox: %q", got)
	}
	if f := mustFacts(t, w.Runner); f.engineClosesIOUring() {
		return // there is nothing to leave out
	}
	id, _ = w.bare(t, "runc", nil, func(c *containerConfig) { c.HostConfig.SecurityOpt = c.HostConfig.SecurityOpt[:1] })
	if got := ask(id); got != "given\n" {
		t.Errorf("without the filter: %q", got)
	}
}

// K16: the egress network outlives the host's restart, and the engine then makes
// its bridge anew: IPv6 goes off on it again before a sidecar joins.
func TestK16EgressBridgeIsShutAgain(t *testing.T) {
	w := newWorld(t)
	n, err := w.egressNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	setting := "/proc/sys/net/ipv6/conf/" + bridgeName(n.ID, n.Options) + "/disable_ipv6"
	if err := os.WriteFile(setting, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	w.sandbox(t, specFor(t, sidecarRuntime))
	if b, err := os.ReadFile(setting); err != nil || strings.TrimSpace(string(b)) != "1" {
		t.Errorf("disable_ipv6 is %q, %v", b, err)
	}
}
