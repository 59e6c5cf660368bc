package docker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
)

func (f *fakeEngine) NetworkCreate(ctx context.Context, name string, o network.CreateOptions) (resp network.CreateResponse, err error) {
	err = f.do(ctx, "NetworkCreate "+kind(name), func() error {
		subnet := netip.MustParsePrefix(o.IPAM.Config[0].Subnet)
		for _, n := range f.networks {
			if netip.MustParsePrefix(n.IPAM.Config[0].Subnet).Overlaps(subnet) {
				return fmt.Errorf("Pool overlaps with other one on this address space: %w", errdefs.ErrPermissionDenied)
			}
		}
		f.next++
		id := fmt.Sprintf("n%011d", f.next)
		f.networks[id] = &network.Inspect{ID: id, Name: name, Driver: o.Driver, Internal: o.Internal, IPAM: *o.IPAM,
			Options: o.Options, Labels: o.Labels, EnableIPv6: *o.EnableIPv6, Containers: map[string]network.EndpointResource{}}
		resp.ID = id
		return nil
	})
	return resp, err
}

func (f *fakeEngine) NetworkConnect(ctx context.Context, id, containerID string, _ *network.EndpointSettings) error {
	return f.do(ctx, "NetworkConnect", func() error {
		if f.networks[id] == nil || f.find(containerID) == nil {
			return notFound("network or container")
		}
		return nil
	})
}

func (f *fakeEngine) NetworkDisconnect(ctx context.Context, id, containerID string, _ bool) error {
	return f.do(ctx, "NetworkDisconnect", func() error {
		for _, n := range f.networks {
			if n.ID == id || n.Name == id {
				delete(n.Containers, containerID)
				return nil
			}
		}
		return notFound("network: " + id)
	})
}

func (f *fakeEngine) NetworkInspect(ctx context.Context, id string, _ network.InspectOptions) (n network.Inspect, err error) {
	err = f.do(ctx, "NetworkInspect", func() error {
		if f.networks[id] == nil {
			return notFound("network: " + id)
		}
		n = *f.networks[id]
		return nil
	})
	return n, err
}

func (f *fakeEngine) NetworkList(ctx context.Context, o network.ListOptions) (out []network.Summary, err error) {
	err = f.do(ctx, "NetworkList", func() error {
		for _, n := range f.networks {
			if !o.Filters.Contains("name") || o.Filters.Match("name", n.Name) {
				out = append(out, *n)
			}
		}
		slices.SortFunc(out, func(a, b network.Summary) int { return strings.Compare(a.ID, b.ID) })
		return nil
	})
	return out, err
}

func (f *fakeEngine) NetworkRemove(ctx context.Context, id string) error {
	return f.do(ctx, "NetworkRemove", func() error {
		n := f.networks[id]
		if n == nil {
			return notFound("network: " + id)
		}
		if len(n.Containers) > 0 {
			return fmt.Errorf("network %s has active endpoints: %w", n.Name, errdefs.ErrPermissionDenied)
		}
		delete(f.networks, id)
		return nil
	})
}
