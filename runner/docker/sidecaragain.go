package docker

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// sidecarAgain gathers what a run's sidecar is made from, out of the run's
// record alone: the process that made the first one may be gone. agent are the
// labels of the sandbox it belongs to.
func (k *keepSidecar) sidecarAgain(ctx context.Context, agent map[string]string) (sidecarInput, error) {
	rec, err := k.opts.Dir.LoadRecord(k.run)
	if err != nil {
		return sidecarInput{}, fmt.Errorf("record of the run: %w", err)
	}
	subnet, err := netip.ParsePrefix(rec.Subnet)
	if err != nil || rec.NetworkID == "" {
		return sidecarInput{}, fmt.Errorf("record of the run: network %q with subnet %q is none", rec.NetworkID, rec.Subnet)
	}
	host, err := k.facts(ctx)
	if err != nil {
		return sidecarInput{}, err
	}
	image, err := k.toolImage(ctx)
	if err != nil {
		return sidecarInput{}, err
	}
	class := types.ConfinementClass(agent[labelClass])
	labels := k.reservedOf(ProxyName(k.net), componentProxy, k.run, class)
	if k.net != k.run {
		labels[labelSlot] = k.net.String()
	}
	return sidecarInput{
		Run: k.run, ImageID: image, Host: host,
		Net:    runNetwork{ID: rec.NetworkID, Plan: netpool.PlanOf(subnet)},
		Caller: rec.Labels,
		Labels: labels,
	}, nil
}
