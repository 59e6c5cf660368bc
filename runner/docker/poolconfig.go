package docker

import (
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// agentHostname is a sandbox's name for itself where its task names none.
const agentHostname = "agent"

// A holder's own limits: it is one program that waits.
const (
	holderMemory = 32 * mib
	holderPids   = int64(32)
	holderCPU    = int64(100_000_000) // a tenth of a core
)

// holderInput is all that a holder's configuration follows from.
type holderInput struct {
	ImageID string
	Net     runNetwork
	Host    hostFacts
	Labels  map[string]string
}

// holderConfig is the container that keeps a network namespace for an agent. It
// is confined as an agent is, joins the same network as one would, and does
// nothing.
func holderConfig(in holderInput) containerConfig {
	pids := holderPids
	h := hardened(sidecarRuntime, in.Host)
	h.ReadonlyRootfs = true
	h.LogConfig = rotated("1m", 1)
	h.Resources = container.Resources{
		Memory: holderMemory, MemorySwap: holderMemory, PidsLimit: &pids, NanoCPUs: holderCPU,
		Ulimits: ulimits(nil, in.Host),
	}
	net := in.Net
	n := joinNetwork(h, &net)
	return containerConfig{
		Config: &container.Config{
			Hostname:    agentHostname, // an agent that joins takes it over
			User:        sidecarUser,
			Image:       in.ImageID,
			Entrypoint:  []string{"/wardyn-rec"},
			Cmd:         []string{"init", "-idle"},
			WorkingDir:  "/",
			StopSignal:  defaultStopSignal,
			Labels:      mergeLabels(nil, nil, in.Labels),
			Healthcheck: noHealthcheck(),
		},
		HostConfig: h,
		Networking: n,
	}
}

// joinHolder puts an agent into a holder's network namespace. Its addresses,
// its resolver and the settings of the namespace are the holder's; an engine
// refuses to be told them again.
func joinHolder(c *container.Config, h *container.HostConfig, holder string) *network.NetworkingConfig {
	h.NetworkMode = container.NetworkMode("container:" + holder)
	c.Hostname = ""
	for k := range h.Sysctls {
		if strings.HasPrefix(k, "net.") {
			delete(h.Sysctls, k)
		}
	}
	return nil
}

// poolable reports whether a planned sandbox can use a slot: its network is as
// every other's, and its runtime has been shown to join a namespace.
func poolable(p plan) bool {
	t := p.spec.Task
	if t == nil {
		t = &runner.TaskProcess{}
	}
	return p.networked() && (p.class == types.CC1 || p.class == types.CC2) &&
		firstOf(t.Hostname, agentHostname) == agentHostname && len(t.Sysctls) == 0
}
