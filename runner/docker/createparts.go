package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/docker/docker/api/types/network"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// takeNetwork takes a slot of the pool where that can be, and makes a network
// otherwise.
func (b *build) takeNetwork(ctx context.Context) error {
	if !poolable(b.plan) {
		return b.makeNetwork(ctx)
	}
	for _, s := range []step{b.steps.slot, b.steps.lease, b.steps.network, b.steps.holder, b.steps.sidecar} {
		b.onUndo(s)
	}
	var err error
	if b.slot, err = b.takeSlot(ctx, b.spec.RunID); err != nil {
		return err
	}
	if b.slot == nil {
		return b.makeNetwork(ctx)
	}
	net := b.slot.net()
	b.net = &net
	return b.saveRecord(&net)
}

func (b *build) makeNetwork(ctx context.Context) error {
	run := b.spec.RunID
	name := NetworkName(run)
	b.onUndo(b.steps.lease)
	b.onUndo(b.steps.network)
	labels := mergeLabels(nil, b.spec.Labels, b.reservedOf(name, componentNetwork, run, b.class))
	n, err := b.leaseNetwork(ctx, leaseOwner(run), name, func(p netpool.Plan) network.CreateOptions {
		return runNetworkOptions(p, b.host, labels)
	})
	if err != nil {
		return err
	}
	b.net = &n
	return b.saveRecord(&n)
}

// makeSidecar opens the control socket, creates and starts the sidecar, and
// waits until it is ready.
func (b *build) makeSidecar(ctx context.Context) error {
	run := b.spec.RunID
	config, err := b.proxyConfig()
	if err != nil {
		return err
	}
	gate, err := b.egressNetwork(ctx)
	if err != nil {
		return err
	}
	endpoint, err := b.opts.Control.Open(ctx, run, config, b.net.Plan)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	name := ProxyName(run)
	in := sidecarInput{
		Run: run, ImageID: b.tools, Control: endpoint.Dir, Net: *b.net, Host: b.host,
		Caller: b.spec.Labels, Labels: b.reservedOf(name, componentProxy, run, b.class),
	}
	id, err := b.createFromTools(ctx, name, sidecarConfig(in))
	if err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	if err := b.startSidecar(ctx, id, gate.ID, b.host); err != nil {
		return err
	}
	close(b.joined)
	return b.waitSidecar(ctx, id, endpoint.Ready)
}

// proxyConfig is what the control socket serves. A run without a control plane
// of its own gets ours, and a token that nobody else knows.
func (b *build) proxyConfig() ([]byte, error) {
	pc := b.spec.ProxyConfig
	if pc.RunToken == "" {
		raw := make([]byte, 32)
		rand.Read(raw) // never fails
		pc.RunToken = hex.EncodeToString(raw)
	}
	if pc.ControlPlaneURL == "" {
		pc.ControlPlaneURL = egress.LocalControlURL
	}
	return runner.BuildProxyConfig(b.spec.RunID, pc, runner.ProxyListenPort)
}
