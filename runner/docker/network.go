package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
)

// Options of the engine's bridge driver.
const (
	optInhibit   = "com.docker.network.bridge.inhibit_ipv4"
	optIsolated4 = "com.docker.network.bridge.gateway_mode_ipv4"
	optICC       = "com.docker.network.bridge.enable_icc"
	optName      = "com.docker.network.bridge.name"
)

// maxOverlaps bounds how many subnets are tried that the engine refuses.
const maxOverlaps = 64

// runNetworkOptions is a network with no way out: internal, without IPv6, and
// with no address of the host's on its bridge. Internal alone leaves every
// address of the host reachable through the bridge's own.
func runNetworkOptions(plan netpool.Plan, host hostFacts, labels map[string]string) network.CreateOptions {
	off := false
	o := network.CreateOptions{
		Driver:     "bridge",
		Internal:   true,
		EnableIPv6: &off,
		IPAM: &network.IPAM{Driver: "default", Config: []network.IPAMConfig{{
			Subnet: plan.Subnet.String(), Gateway: plan.Gateway.String(),
		}}},
		Options: map[string]string{optInhibit: "true"},
		Labels:  labels,
	}
	if host.isolatedGateway() {
		o.Options = map[string]string{optIsolated4: "isolated"}
	}
	return o
}

// leaseNetwork leases a subnet for owner and makes a network on it. Subnets
// that the engine knows, or finds taken, are passed over.
func (r *Runner) leaseNetwork(ctx context.Context, owner, name string, options func(netpool.Plan) network.CreateOptions) (runNetwork, error) {
	avoid, err := r.engineSubnets(ctx)
	if err != nil {
		return runNetwork{}, err
	}
	for range maxOverlaps {
		subnet, err := r.runs.Lease(owner, avoid)
		if err != nil {
			return runNetwork{}, poolError("subnet_pool", err)
		}
		plan := netpool.PlanOf(subnet)
		id, err := r.createNetwork(ctx, name, options(plan))
		if isOverlap(err) {
			avoid = append(avoid, subnet)
			continue
		}
		return runNetwork{ID: id, Plan: plan}, err
	}
	return runNetwork{}, fmt.Errorf("network %s: the engine found %d subnets in a row taken", name, maxOverlaps)
}

// createNetwork makes one network and shuts its bridge's ways into the host.
// When it fails the network may be there all the same.
func (r *Runner) createNetwork(ctx context.Context, name string, o network.CreateOptions) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", wrap("create network "+name, err)
	}
	c, cancel := making(ctx)
	defer cancel()
	n, err := r.api.NetworkCreate(c, name, o)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return n.ID, wrap("create network "+name, err)
	}
	if err := shutBridge(bridgeName(n.ID, o.Options), o.Internal); err != nil {
		return n.ID, fmt.Errorf("network %s: %w", name, err)
	}
	return n.ID, nil
}

func bridgeName(id string, options map[string]string) string {
	if n := options[optName]; n != "" {
		return n
	}
	return "br-" + id[:min(12, len(id))]
}

// shutBridge closes what a bridge of the host lets in by itself. IPv6 goes off,
// or a sandbox with IPv6 of its own reaches the bridge's link-local address. A
// run's bridge has no address, and yet the host takes broadcasts and multicasts
// from it, and packets for any address it holds: no route leads back there, so
// the check of the reverse path drops them all. An engine in another network
// namespace has its bridges there; then there is nothing to write to.
func shutBridge(bridge string, internal bool) error {
	settings := map[string]string{"ipv6/conf/" + bridge + "/disable_ipv6": "1"}
	if internal {
		settings["ipv4/conf/"+bridge+"/rp_filter"] = "1"
		// No answer to whoever asks which of the host's addresses are here.
		settings["ipv4/conf/"+bridge+"/arp_ignore"] = "8"
	}
	for name, value := range settings {
		err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// engineSubnets lists the IPv4 subnets of every network of the engine.
func (r *Runner) engineSubnets(ctx context.Context) ([]netip.Prefix, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	nets, err := r.api.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return nil, wrap("list networks", err)
	}
	var out []netip.Prefix
	for _, n := range nets {
		for _, c := range n.IPAM.Config {
			if p, err := netip.ParsePrefix(c.Subnet); err == nil {
				out = append(out, p.Masked())
			}
		}
	}
	return out, nil
}

// runNetworks finds the networks of a run that are ours, by label and by name:
// there may be two of one name.
func (r *Runner) runNetworks(ctx context.Context, name string) ([]network.Summary, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	found, err := r.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", name))})
	if err != nil {
		return nil, wrap("list networks", err)
	}
	return slices.DeleteFunc(found, func(n network.Summary) bool {
		return n.Name != name || !r.owns(n.Name, n.Labels)
	}), nil
}

// removeNetworks removes every network of that name that is ours, by id, with
// whoever is still attached put off it first.
func (r *Runner) removeNetworks(ctx context.Context, name string) error {
	nets, err := r.runNetworks(ctx, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nets {
		errs = append(errs, r.removeNetwork(ctx, n.ID))
	}
	return errors.Join(errs...)
}

// The engine answers for a container before it has let go of its endpoints.
const (
	endpointsLinger = 15 * time.Second
	endpointsAgain  = 100 * time.Millisecond
)

// removeNetwork removes one network by id; one that is gone is nil.
func (r *Runner) removeNetwork(ctx context.Context, id string) error {
	until, cancel := context.WithTimeout(ctx, endpointsLinger)
	defer cancel()
	for {
		err := r.tryRemoveNetwork(ctx, id)
		if err == nil || !isActiveEndpoints(err) {
			return err
		}
		if derr := r.disconnectAll(ctx, id); derr != nil {
			return derr
		}
		select {
		case <-until.Done():
			return err
		case <-time.After(endpointsAgain):
		}
	}
}

// disconnectAll takes every member off a network.
func (r *Runner) disconnectAll(ctx context.Context, id string) error {
	c, cancel := call(ctx)
	defer cancel()
	n, ierr := r.api.NetworkInspect(c, id, network.InspectOptions{})
	if ierr != nil {
		return goneIsNil(wrap("inspect network", ierr))
	}
	for cid, e := range n.Containers {
		r.opts.Log.Warn("network has a member that is not ours; disconnecting it", "network", n.Name, "container", e.Name)
		c, cancel := call(ctx)
		derr := r.api.NetworkDisconnect(c, id, cid, true)
		cancel()
		if derr = goneIsNil(wrap("disconnect "+e.Name, derr)); derr != nil {
			return derr
		}
	}
	return nil
}

func (r *Runner) tryRemoveNetwork(ctx context.Context, id string) error {
	ctx, cancel := call(ctx)
	defer cancel()
	return goneIsNil(wrap("remove network", r.api.NetworkRemove(ctx, id)))
}

// isOverlap: the engine says that a subnet is taken.
func isOverlap(err error) bool {
	if err == nil {
		return false
	}
	s := strings.ToLower(err.Error())
	return strings.Contains(s, "pool overlaps") || strings.Contains(s, "have overlapping") ||
		strings.Contains(s, "conflicts with network")
}

func isActiveEndpoints(err error) bool {
	return err != nil && strings.Contains(err.Error(), "has active endpoints")
}

// runFiles are the names a sandbox resolves without asking anybody, and the
// one resolver it may ask. net is nil without a network.
func runFiles(hostname string, net *runNetwork) (resolv, hosts string) {
	if short, _, long := strings.Cut(hostname, "."); long {
		hostname += " " + short
	}
	hosts = "127.0.0.1 localhost\n"
	if net == nil {
		return "# this sandbox has no network\n", hosts + "127.0.1.1 " + hostname + "\n"
	}
	hosts += net.Plan.Sidecar.String() + " " + proxyHost + "\n" + net.Plan.Agent.String() + " " + hostname + "\n"
	return "nameserver " + net.Plan.Sidecar.String() + "\n", hosts
}

// leaseOwner is who holds a run's subnet in the pool.
func leaseOwner(run uuid.UUID) string { return run.String() }
