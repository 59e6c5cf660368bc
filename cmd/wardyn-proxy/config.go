package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// defaultPort is the proxy port when the configuration names none.
const defaultPort = 3128

// source is where a configuration came from and what it says.
type source struct {
	config egress.Config
	node   egress.NodeConfig
	client *controlplane.Client
	// local: the control plane is the plugin, on a socket of this run alone; it
	// wants to know when the proxy is ready.
	local bool
}

// load reads the configuration. With a control plane it waits for an answer as
// long as it takes and tells every client meanwhile that it is not ready.
func load(ctx context.Context, control, file string, log *slog.Logger) (source, error) {
	if control != "" {
		return loadControl(ctx, control, log)
	}
	raw := []byte(os.Getenv("WARDYN_PROXY_CONFIG_JSON"))
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return source{}, fmt.Errorf("configuration: %w", err)
		}
		raw = b
	}
	if len(raw) == 0 {
		return source{}, errors.New("no configuration: give -control, -config or WARDYN_PROXY_CONFIG_JSON")
	}
	c, err := egress.ParseConfig(raw)
	if err != nil {
		return source{}, err
	}
	client, err := controlplane.New(c.ControlPlaneURL)
	if err != nil {
		return source{}, err
	}
	client.SetToken(c.RunToken)
	return source{config: c, client: client}, nil
}

func loadControl(ctx context.Context, control string, log *slog.Logger) (source, error) {
	client, err := controlplane.New(control)
	if err != nil {
		return source{}, err
	}
	stop := proxy.ServeNotReady(ctx, ":"+strconv.Itoa(defaultPort), log)
	defer stop()
	waiting, known := context.WithCancel(ctx)
	defer known()
	raw, err := fetch(ctx, client, controlChanges(waiting, control, log), log)
	if err != nil {
		return source{}, err
	}
	c, node, err := egress.ParseSidecarConfig(raw)
	if err != nil {
		return source{}, err
	}
	client.SetToken(c.RunToken)
	return source{config: c, node: node, client: client, local: true}, nil
}

const (
	// fetchPause spaces attempts at first, and after something has changed in
	// the control folder; it doubles up to fetchPauseMost.
	fetchPause     = 5 * time.Millisecond
	fetchPauseMost = 2 * time.Second
)

// fetch asks for the configuration until there is one. The plugin may be
// restarting, or this sidecar may be waiting for a run to be given to it; that
// is no reason to give up. changed makes it ask sooner.
func fetch(ctx context.Context, client *controlplane.Client, changed <-chan struct{}, log *slog.Logger) ([]byte, error) {
	wait := fetchPause
	for tries := 0; ; tries++ {
		tctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		raw, err := client.Config(tctx)
		cancel()
		if err == nil {
			return raw, nil
		}
		if tries == 0 {
			log.Warn("no configuration yet; asking on", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
			wait = fetchPause
		case <-time.After(wait):
			wait = min(2*wait, fetchPauseMost)
		}
	}
}

// listenAddr is the address and port of the proxy listener. With an address of
// the node's choice nothing is bound elsewhere.
func (s source) listenAddr() (netip.Addr, string, error) {
	port := strconv.Itoa(defaultPort)
	if s.config.Listen != "" {
		_, p, err := net.SplitHostPort(s.config.Listen)
		if err != nil {
			return netip.Addr{}, "", fmt.Errorf("listen %q: %w", s.config.Listen, err)
		}
		port = p
	}
	if s.node.Listen == "" {
		return netip.Addr{}, port, nil
	}
	a, err := netip.ParseAddr(s.node.Listen)
	if err != nil {
		return netip.Addr{}, "", fmt.Errorf("node listen address %q: %w", s.node.Listen, err)
	}
	return a.Unmap(), port, nil
}
