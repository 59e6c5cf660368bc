package host

import (
	"context"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// CreateNetwork asks a driver with MustCreateNetwork for the network of an allocation. created
// is false when it exists already.
func (p *Plugin) CreateNetwork(ctx context.Context, allocID, hostname string) (spec *NetworkIsolation, created bool, err error) {
	inst, err := p.instance(ctx)
	if err != nil {
		return nil, false, err
	}
	answer, err := inst.Driver.CreateNetwork(ctx, &driverpb.CreateNetworkRequest{AllocId: allocID, Hostname: hostname})
	return fromNetwork(answer.GetIsolationSpec()), answer.GetCreated(), p.settle(ctx, inst, "CreateNetwork", err)
}

// DestroyNetwork is the opposite of CreateNetwork.
func (p *Plugin) DestroyNetwork(ctx context.Context, allocID string, spec *NetworkIsolation) error {
	inst, err := p.instance(ctx)
	if err != nil {
		return err
	}
	_, err = inst.Driver.DestroyNetwork(ctx, &driverpb.DestroyNetworkRequest{
		AllocId: allocID, IsolationSpec: toNetwork(spec),
	})
	return p.settle(ctx, inst, "DestroyNetwork", err)
}
