package docker

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/network"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// K16, K29: the egress network is made once, and looked at anew at every use.
func TestK16EgressNetworkIsVerified(t *testing.T) {
	w := newFakeWorld(t)
	n, err := w.egressNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Which part of the pool it is depends on what this machine routes.
	subnet := netip.MustParsePrefix(n.IPAM.Config[0].Subnet)
	if pool := netip.MustParsePrefix("10.214.0.0/16"); !pool.Contains(subnet.Addr()) || subnet.Bits() != 22 {
		t.Errorf("subnet %s, want a /22 of %s", subnet, pool)
	}
	if gw, err := w.EgressGateway(t.Context()); err != nil || gw != subnet.Addr().Next() {
		t.Errorf("gateway %v, %v; want the first address of %s", gw, err, subnet)
	}
	again, err := w.egressNetwork(t.Context())
	if err != nil || again.ID != n.ID || len(w.engine.networks) != 1 {
		t.Errorf("%v, %v; %d networks", again.ID, err, len(w.engine.networks))
	}
	for name, change := range map[string]func(*network.Inspect){
		"proof":     func(n *network.Inspect) { n.Labels[labelProof] = "forged" },
		"instance":  func(n *network.Inspect) { n.Labels[labelInstance] = "another" },
		"component": func(n *network.Inspect) { n.Labels[labelComponent] = componentNetwork },
		"icc":       func(n *network.Inspect) { n.Options = map[string]string{optICC: "true"} },
		"more":      func(n *network.Inspect) { n.Options = map[string]string{optICC: "false", optName: "eth7"} },
		"internal":  func(n *network.Inspect) { n.Internal = true },
		"ipv6":      func(n *network.Inspect) { n.EnableIPv6 = true },
		"driver":    func(n *network.Inspect) { n.Driver = "macvlan" },
	} {
		w := newFakeWorld(t)
		made, err := w.egressNetwork(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		change(w.engine.networks[made.ID])
		_, err = w.CreateSandbox(t.Context(), fakeSpec())
		if !errors.Is(err, runner.ErrExists) && !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("%s: err = %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "docker network rm") {
			t.Errorf("%s: no remedy in %v", name, err)
		}
	}
}

// A network of another instance that only looks like ours stays.
func TestRemoveEgressNetwork(t *testing.T) {
	w := newFakeWorld(t)
	if err := w.RemoveEgressNetwork(t.Context()); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	n, err := w.egressNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.engine.networks[n.ID].Containers["sidecar"] = network.EndpointResource{}
	if err := w.RemoveEgressNetwork(t.Context()); err == nil {
		t.Error("removed while a sidecar is on it")
	}
	delete(w.engine.networks[n.ID].Containers, "sidecar")
	if err := w.RemoveEgressNetwork(t.Context()); err != nil {
		t.Error(err)
	}
	if used, _, _ := w.egress.Usage(); used != 0 || len(w.engine.networks) != 0 {
		t.Errorf("%d leases, %d networks left", used, len(w.engine.networks))
	}
}

// K3: subnets that the engine knows are passed over at once, those it finds
// taken for other reasons one by one; S5: exhaustion names the option.
func TestK3OverlapIsTakenNext(t *testing.T) {
	w := newFakeWorld(t)
	foreign := func(id, subnet string) {
		w.engine.networks[id] = &network.Inspect{ID: id, Name: id, IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}}}
	}
	foreign("a", "10.213.0.0/24")
	foreign("b", "10.213.1.0/29")
	spec := fakeSpec()
	// The engine hides one at first, as when another process is just making it.
	w.engine.before = func(_ int, call string) error {
		if call == "NetworkCreate net" && w.engine.networks["late"] == nil {
			foreign("late", "10.213.1.8/29")
		}
		return nil
	}
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if rec, err := w.dir.LoadRecord(spec.RunID); err != nil || rec.Subnet != "10.213.1.16/29" {
		t.Errorf("subnet %s, %v", rec.Subnet, err)
	}
	foreign("all", "10.213.0.0/16")
	next := fakeSpec()
	_, err := w.CreateSandbox(t.Context(), next)
	if !errors.Is(err, runner.ErrExhausted) || !strings.Contains(err.Error(), "subnet_pool") {
		t.Errorf("err = %v", err)
	}
}

// The engine's own words for a subnet that is taken, old and new.
func TestIsOverlap(t *testing.T) {
	for text, want := range map[string]bool{
		"Error response from daemon: Pool overlaps with other one on this address space":                                              true,
		"Error response from daemon: invalid pool request: Pool overlaps with other one on this address space":                        true,
		"Error response from daemon: cannot create network 1 (br-1): conflicts with network 2 (br-2): networks have overlapping IPv4": true,
		"Error response from daemon: could not find an available, non-overlapping IPv4 address pool among the defaults to assign":     false,
		"Error response from daemon: network with name x already exists":                                                              false,
	} {
		if got := isOverlap(errors.New(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if isOverlap(nil) {
		t.Error("nil")
	}
}
