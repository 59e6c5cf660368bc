package netpool

import "net/netip"

// Plan says who holds which address of a run's subnet.
type Plan struct {
	Subnet netip.Prefix
	// Gateway is the address the engine is told of. Nobody holds it.
	Gateway netip.Addr
	// Sidecar and Agent are the run's two members.
	Sidecar, Agent netip.Addr
}

// PlanOf lays a run's addresses out: base+1, +2 and +3.
func PlanOf(subnet netip.Prefix) Plan {
	p := Plan{Subnet: subnet.Masked()}
	p.Gateway = p.Subnet.Addr().Next()
	p.Sidecar = p.Gateway.Next()
	p.Agent = p.Sidecar.Next()
	return p
}
