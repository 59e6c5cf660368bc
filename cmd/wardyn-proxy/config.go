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
	raw, err := fetch(ctx, client, log)
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

// fetch asks for the configuration until there is one. The plugin may be
// restarting; that is no reason to give up.
func fetch(ctx context.Context, client *controlplane.Client, log *slog.Logger) ([]byte, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		tctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		raw, err := client.Config(tctx)
		cancel()
		if err == nil {
			return raw, nil
		}
		log.Warn("no configuration yet", "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
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
