package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/audit"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/dnsd"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

const (
	startTimeout    = 25 * time.Second // to resolve credentials and be ready
	shutdownTimeout = 15 * time.Second // all of it together
)

// serve runs the proxy until ctx ends.
func serve(ctx context.Context, control, file string, log *slog.Logger) error {
	src, err := load(ctx, control, file, log)
	if err != nil {
		return err
	}
	frugal(src.config)
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	mask := &audit.Mask{}
	mask.Add(src.config.RunToken)
	runID, err := uuid.Parse(src.config.RunID)
	if err != nil {
		return fmt.Errorf("run_id: %w", err)
	}
	sink := audit.New(work, audit.Options{
		RunID: runID, Out: os.Stdout, Post: src.client.Decisions, Buffer: src.config.DecisionBufferSize,
		Batch: src.node.DecisionBatch, Mask: mask, Logger: log,
	})
	opts := proxy.Options{Config: src.config, Node: src.node, Sink: sink, Control: src.client, Mask: mask, Logger: log,
		Quiet: func() { settle(log) }}
	if src.local {
		// Asking costs little; a revocation must bite at once, and so must a
		// secret that was changed.
		opts.ApprovalTrust, opts.CredentialTrust = time.Second, time.Second
		opts.Own, opts.OwnTrust = src.client.Own, time.Second
	}
	srv, err := proxy.New(work, opts)
	if err != nil {
		return err
	}
	in, err := openInlet(work, src, runID, sink, log)
	if err != nil {
		return err
	}
	if err := start(ctx, srv, src, log); err != nil {
		return err
	}
	go src.client.KeepRenewed(work, mask, log)
	settle(log)
	log.Info("ready", "run", src.config.RunID, "listen", src.node.Listen)
	<-ctx.Done()
	return stop(srv, in, sink, log)
}

// start resolves what has to be there, opens the listeners and says so.
func start(ctx context.Context, srv *proxy.Server, src source, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := srv.Prepare(ctx); err != nil {
		return err
	}
	if err := listen(srv, src, log); err != nil {
		return err
	}
	if !src.local {
		return nil
	}
	if err := src.client.Ready(ctx); err != nil {
		return fmt.Errorf("report ready: %w", err)
	}
	return nil
}

// listen opens the proxy port, and on a node's own address also the name
// server, the transparent ports and those of entries with +tcp.
func listen(srv *proxy.Server, src source, log *slog.Logger) error {
	addr, port, err := src.listenAddr()
	if err != nil {
		return err
	}
	host := ""
	if addr.IsValid() {
		host = addr.String()
	}
	l, err := listenTCP(host, port)
	if err != nil {
		return err
	}
	go srv.Serve(l, proxy.Explicit)
	if !addr.IsValid() {
		return nil
	}
	for port, way := range map[string]proxy.Way{"80": proxy.TransparentHTTP, "443": proxy.TransparentTLS} {
		l, err := listenTCP(host, port)
		if err != nil {
			return err
		}
		go srv.Serve(l, way)
	}
	raw, err := egress.RawPorts(src.config.Policy.AllowedDomains)
	if err != nil {
		return err
	}
	for port, to := range raw {
		l, err := listenTCP(host, strconv.Itoa(int(port)))
		if err != nil {
			return err
		}
		go srv.ServeRaw(l, egress.Authority{Host: to, Port: port})
	}
	return listenDNS(addr, log)
}

// listenTCP opens a listener without keep-alive probes: the sandbox is on the
// same machine, and the janitor ends what is silent for too long.
func listenTCP(host, port string) (net.Listener, error) {
	l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

func listenDNS(addr netip.Addr, log *slog.Logger) error {
	at := net.JoinHostPort(addr.String(), "53")
	pc, err := net.ListenPacket("udp", at)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		pc.Close()
		return fmt.Errorf("listen: %w", err)
	}
	d := &dnsd.Server{Addr: addr, Logger: log}
	go d.ServeUDP(pc)
	go d.ServeTCP(l)
	return nil
}

// stop drains requests, then records, within one bound.
func stop(srv *proxy.Server, in *inlet, sink *audit.Log, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	drain, cancelDrain := context.WithTimeout(ctx, shutdownTimeout-5*time.Second)
	in.shutdown(drain)
	srv.Shutdown(drain)
	cancelDrain()
	if lost := sink.Close(ctx); lost > 0 {
		log.Error("decision records not delivered", "lost", lost)
	}
	return nil
}
