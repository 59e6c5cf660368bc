package docker

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// Names follow from the run id alone, so that a run can be taken down with
// nothing in memory. No "-" stands directly before the UUID: Nomad's docker
// driver removes containers named so.
const (
	agentPrefix   = "wardyn_agent_"
	proxyPrefix   = "wardyn_proxy_"
	networkPrefix = "wardyn_net_"
	egressPrefix  = "wardyn_egress_"
	probePrefix   = "wardyn_probe_"
	holderPrefix  = "wardyn_hold_"
)

// AgentName is the agent container's name and the sandbox's ref.
func AgentName(run uuid.UUID) string { return agentPrefix + run.String() }

// ProxyName is the sidecar container's name.
func ProxyName(run uuid.UUID) string { return proxyPrefix + run.String() }

// NetworkName is the run network's name.
func NetworkName(run uuid.UUID) string { return networkPrefix + run.String() }

// HolderName is the name of a slot's holder.
func HolderName(slot uuid.UUID) string { return holderPrefix + slot.String() }

// RunOf reads the run id out of a ref.
func RunOf(ref string) (uuid.UUID, error) {
	s, ok := strings.CutPrefix(strings.TrimPrefix(ref, "/"), agentPrefix)
	id, err := uuid.Parse(s)
	if !ok || err != nil {
		return uuid.Nil, fmt.Errorf("%q is not the name of a sandbox", ref)
	}
	return id, nil
}
