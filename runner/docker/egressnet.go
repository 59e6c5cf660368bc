package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// egressOwner holds the egress network's subnet in its pool.
const egressOwner = "egress"

// EgressNetworkName is the name of the network that the sidecars of this
// instance share.
func (r *Runner) EgressNetworkName() string {
	return firstOf(r.opts.EgressNetwork, egressPrefix+r.opts.Dir.Instance())
}

// egressOptions is the sidecars' network: a way out, and no way to each other.
func egressOptions(subnet netip.Prefix, labels map[string]string) network.CreateOptions {
	off := false
	return network.CreateOptions{
		Driver:     "bridge",
		EnableIPv6: &off,
		IPAM: &network.IPAM{Driver: "default", Config: []network.IPAMConfig{{
			Subnet: subnet.String(), Gateway: subnet.Addr().Next().String(),
		}}},
		Options: map[string]string{optICC: "false"},
		Labels:  labels,
	}
}

// EgressGateway makes sure that the egress network exists and returns the
// host's own address on it.
func (r *Runner) EgressGateway(ctx context.Context) (netip.Addr, error) {
	n, err := r.egressNetwork(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, c := range n.IPAM.Config {
		if a, err := netip.ParseAddr(c.Gateway); err == nil && a.Is4() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("egress network %s has no gateway", n.Name)
}

// egressNetwork finds the egress network, or makes it. It is looked at anew at
// every use, since a network of that name may have come from anybody. Its bridge
// is shut anew as well: an engine makes it again, open, when the host has been
// started again.
func (r *Runner) egressNetwork(ctx context.Context) (network.Inspect, error) {
	n, err := r.findOrMakeEgress(ctx)
	if err == nil {
		err = shutBridge(bridgeName(n.ID, n.Options), n.Internal)
	}
	return n, err
}

func (r *Runner) findOrMakeEgress(ctx context.Context) (network.Inspect, error) {
	n, ok, err := r.findEgress(ctx)
	if ok || err != nil {
		return n, err
	}
	unlock, err := r.opts.Dir.Lock("egress-network")
	if err != nil {
		return network.Inspect{}, err
	}
	defer unlock()
	if n, ok, err = r.findEgress(ctx); ok || err != nil {
		return n, err
	}
	if err := r.makeEgress(ctx); err != nil {
		return network.Inspect{}, err
	}
	n, ok, err = r.findEgress(ctx)
	if err == nil && !ok {
		err = fmt.Errorf("egress network %s vanished right after it was made: %w", r.EgressNetworkName(), runner.ErrUnavailable)
	}
	return n, err
}

// findEgress returns the network if it is there and is what we would have made.
func (r *Runner) findEgress(ctx context.Context) (network.Inspect, bool, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	name := r.EgressNetworkName()
	found, err := r.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", name))})
	if err != nil {
		return network.Inspect{}, false, wrap("list networks", err)
	}
	for _, n := range found {
		if n.Name != name {
			continue
		}
		// The list may hold less than an inspect; what is used is inspected, by id.
		full, err := r.api.NetworkInspect(ctx, n.ID, network.InspectOptions{})
		if err != nil {
			return network.Inspect{}, false, wrap("inspect network "+name, err)
		}
		if full.ID == "" {
			return network.Inspect{}, false, incomplete("network " + name)
		}
		if err := r.checkEgress(full); err != nil {
			return network.Inspect{}, false, err
		}
		return full, true, nil
	}
	return network.Inspect{}, false, nil
}

// checkEgress refuses a network that is not ours or was made differently.
func (r *Runner) checkEgress(n network.Inspect) error {
	if !r.owns(n.Name, n.Labels) || n.Labels[labelComponent] != componentEgress {
		return fmt.Errorf("network %s exists and was not made by this instance; remove it (docker network rm %s): %w",
			n.Name, n.ID[:min(12, len(n.ID))], runner.ErrExists)
	}
	want := egressOptions(netip.Prefix{}, nil)
	if n.Driver != want.Driver || n.Internal || n.EnableIPv6 || !maps.Equal(n.Options, want.Options) {
		return fmt.Errorf("network %s was made with other options by an earlier version; end this node's tasks and remove it (docker network rm %s): %w",
			n.Name, n.ID[:min(12, len(n.ID))], runner.ErrPrecondition)
	}
	return nil
}

func (r *Runner) makeEgress(ctx context.Context) error {
	avoid, err := r.engineSubnets(ctx)
	if err != nil {
		return err
	}
	name := r.EgressNetworkName()
	labels := r.reserved(name, componentEgress)
	for range maxOverlaps {
		subnet, err := r.egress.Lease(egressOwner, avoid)
		if err != nil {
			return poolError("egress_subnet_pool", err)
		}
		_, err = r.createNetwork(ctx, name, egressOptions(subnet, labels))
		if !isOverlap(err) {
			return err
		}
		avoid = append(avoid, subnet)
	}
	return fmt.Errorf("network %s: the engine found %d subnets in a row taken", name, maxOverlaps)
}

// RemoveEgressNetwork removes the egress network of an instance that will not
// be back, such as that of a single run. One that is gone is nil; one that
// sidecars are still on is an error.
func (r *Runner) RemoveEgressNetwork(ctx context.Context) error {
	unlock, err := r.opts.Dir.Lock("egress-network")
	if err != nil {
		return err
	}
	defer unlock()
	nets, err := r.runNetworks(ctx, r.EgressNetworkName())
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nets {
		errs = append(errs, r.tryRemoveNetwork(ctx, n.ID))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.egress.Release(egressOwner)
}
