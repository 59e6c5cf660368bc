package runner

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// BuildProxyConfig writes a run's egress configuration as the JSON that its
// sidecar reads with egress.ParseConfig. Equal input gives equal bytes, so
// that a substrate can tell by comparison whether anything changed. port is
// the sidecar's listen port: ProxyListenPort, except in tests.
//
// It maps fields and judges nothing: whether the sidecar accepts the result is
// for egress.ParseConfig to say. The bytes hold the run token and the CA key;
// they belong into the control endpoint and never into a container's
// environment, command line or labels.
func BuildProxyConfig(runID uuid.UUID, pc ProxyConfig, port int) ([]byte, error) {
	b, err := json.Marshal(egress.Config{
		RunID:            runID.String(),
		ControlPlaneURL:  pc.ControlPlaneURL,
		RunToken:         pc.RunToken,
		Policy:           pc.Policy,
		Injection:        flatGrants(pc.Injection),
		Listen:           ":" + strconv.Itoa(port),
		MITMCACertPEM:    pc.MITMCACertPEM,
		MITMCAKeyPEM:     pc.MITMCAKeyPEM,
		MITMHosts:        pc.MITMHosts,
		MITMLLM:          pc.MITMLLM,
		GitGrants:        pc.GitGrants,
		UpstreamProxyURL: pc.UpstreamProxyURL,
	})
	if err != nil {
		return nil, fmt.Errorf("proxy configuration of run %s: %w: %w", runID, ErrInvalid, err)
	}
	return b, nil
}

// flatGrants puts each grant into the shape it travels in: the rule's keys
// beside grant_id.
func flatGrants(in []InjectionGrant) []egress.InjectionGrant {
	out := make([]egress.InjectionGrant, len(in))
	for i, g := range in {
		out[i] = egress.InjectionGrant{InjectionRule: g.Rule, GrantID: g.GrantID}
	}
	return out
}
