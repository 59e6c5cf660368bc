package egress

import (
	"encoding/json"
	"fmt"
)

// Reference paths of the control plane, below ControlPlaneURL. Over the local
// control socket the same paths are used.
const (
	PathConfig    = "/api/v1/internal/config"
	PathReady     = "/api/v1/internal/ready"
	PathOwn       = "/api/v1/internal/own-addresses"
	PathDecisions = "/api/v1/internal/decisions"
	PathApprovals = "/api/v1/internal/approvals"
	PathInjection = "/api/v1/internal/injection"
	PathMint      = "/api/v1/internal/credentials/mint"
	PathRenew     = "/api/v1/internal/token/renew"
	PathRecording = "/api/v1/internal/recordings"
)

// OnBehalf is the header of requests that a sidecar carries for the sandbox
// itself, so that the control plane can tell them from the sidecar's own.
const OnBehalf = "X-Wardyn-On-Behalf"

// LocalControlURL is the control plane of a sidecar that is served by the
// plugin itself: a unix socket mounted into it.
const LocalControlURL = "unix:///run/wardyn/control.sock"

// LocalPortsSocket is where the sidecar fetches the sockets of inbound ports.
const LocalPortsSocket = "/run/wardyn/ports.sock"

// OwnAddresses is the answer of PathOwn: what NodeConfig.Own would say now.
type OwnAddresses struct {
	Own []string `json:"own"`
}

// SidecarConfig is the answer of PathConfig on the local control socket.
type SidecarConfig struct {
	// Proxy holds exactly the bytes of runner.BuildProxyConfig.
	Proxy json.RawMessage `json:"proxy"`
	Node  NodeConfig      `json:"node"`
}

// NodeConfig is what the node knows and the run's policy has no word for.
type NodeConfig struct {
	// Listen is the sidecar's address on the run's own network. Every listener
	// binds it and nothing else, so that neither the host nor a neighbour on
	// the egress network can use a run's credentials.
	Listen string `json:"listen,omitempty"`
	// Agent is the sandbox's own address there.
	Agent string `json:"agent,omitempty"`
	// Ports are the inbound ports that the sidecar fetches the sockets of, at
	// LocalPortsSocket.
	Ports []string `json:"ports,omitempty"`
	// Own are addresses and prefixes that the node itself holds; all are refused.
	Own []string `json:"own,omitempty"`
	// PrivateHosts opens single private upstreams: host name to the prefixes it
	// may resolve to, or to pinned addresses that need no DNS.
	PrivateHosts map[string]PrivateHost `json:"private_hosts,omitempty"`
	// NAT64Prefix is the network's own RFC 6052 prefix, a /96: the IPv4 address
	// embedded in it is judged instead. All other translation prefixes are refused.
	NAT64Prefix string `json:"nat64_prefix,omitempty"`
	// AllowCeiling, when not empty, is a second list that every host must be
	// on, whatever the run's policy, an approval or learn mode says.
	AllowCeiling []string `json:"allow_ceiling,omitempty"`
	// DenyCeiling is the operator's deny list.
	DenyCeiling []string `json:"deny_ceiling,omitempty"`
	// ProxyBypass lists hosts that are reached directly although the run has an
	// upstream proxy: entries of a host list. Private hosts always are.
	ProxyBypass []string `json:"proxy_bypass,omitempty"`
	// Git says more about the repositories of Config.GitGrants: "org/repo" to
	// what may be done there. A grant without a rule is a rule without values.
	Git map[string]GitRule `json:"git,omitempty"`
	// Cleartext lists the destinations, "host:port", where the operator lets an
	// injection rule's credential travel unencrypted. Everywhere else a request
	// in the clear to a host with a rule is refused.
	Cleartext []string `json:"cleartext,omitempty"`
	// Learn: what no list speaks of passes, within the ceilings, and is recorded
	// as something that would have been denied.
	Learn bool `json:"learn,omitempty"`
	// CARoots is a PEM bundle for upstream TLS; a scratch image has none.
	CARoots string `json:"ca_roots,omitempty"`
	// Resolvers are the DNS servers to ask, "address:port"; empty means the
	// container's own resolv.conf.
	Resolvers []string `json:"resolvers,omitempty"`
	// DecisionBatch is how many records one POST to PathDecisions may carry, one
	// JSON object a line; 0 and 1 mean one. An answer that is no success means
	// that all of them come again.
	DecisionBatch int `json:"decision_batch,omitempty"`
	// HoldSeconds and MaxHolds bound requests that wait for a review.
	HoldSeconds int `json:"hold_seconds,omitempty"`
	MaxHolds    int `json:"max_holds,omitempty"`
}

// PrivateHost is one operator exception to the address guard.
type PrivateHost struct {
	// Prefixes the name may resolve to, in CIDR notation.
	Prefixes []string `json:"prefixes,omitempty"`
	// Addresses pin the name without DNS.
	Addresses []string `json:"addresses,omitempty"`
}

// GitRule is what a grant for a repository allows.
type GitRule struct {
	// Host is the git server; empty means github.com.
	Host string `json:"host,omitempty"`
	// FetchOnly refuses every push.
	FetchOnly bool `json:"fetch_only,omitempty"`
	// PushRefs are the prefixes of full ref names that may be pushed to, such as
	// "refs/heads/wardyn/x/"; empty means "refs/heads/wardyn/<run id>/". Nothing
	// below them may be deleted. The single prefix "*" lifts both limits.
	PushRefs []string `json:"push_refs,omitempty"`
}

// ParseSidecarConfig reads a SidecarConfig and the proxy configuration in it, strictly.
func ParseSidecarConfig(b []byte) (Config, NodeConfig, error) {
	var s SidecarConfig
	if err := strictJSON(b, &s); err != nil {
		return Config{}, NodeConfig{}, fmt.Errorf("sidecar configuration: %w", err)
	}
	c, err := ParseConfig(s.Proxy)
	if err != nil {
		return Config{}, NodeConfig{}, err
	}
	return c, s.Node, nil
}
