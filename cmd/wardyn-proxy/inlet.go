package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/ingress"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// How soon a port that could not be had, or was lost, is asked for again.
const (
	inletPause    = time.Second
	maxInletPause = 30 * time.Second
)

// inlet fetches the sockets of the run's inbound ports and serves them.
type inlet struct {
	want  []string // keys
	token string
	srv   *ingress.Server
	log   *slog.Logger

	mu   sync.Mutex
	have []string
	lost chan struct{} // something is missing again
}

// openInlet serves every port that can be had now, and the others as soon as
// they can. Without ports it is nil.
func openInlet(ctx context.Context, src source, run uuid.UUID, sink ingress.Sink, log *slog.Logger) (*inlet, error) {
	if len(src.node.Ports) == 0 {
		return nil, nil
	}
	agent, err := netip.ParseAddr(src.node.Agent)
	if err != nil {
		return nil, fmt.Errorf("inbound ports: the sandbox's address: %w", err)
	}
	i := &inlet{
		want: src.node.Ports, token: src.config.RunToken, log: log, lost: make(chan struct{}, 1),
		srv: ingress.New(ingress.Options{RunID: run, Agent: agent, Sink: sink, Logger: log}),
	}
	if err := i.fetch(); err != nil {
		log.Error("inbound ports are missing", "error", err)
		i.wake()
	}
	go i.keep(ctx)
	return i, nil
}

// shutdown ends every flow; a nil inlet has none.
func (i *inlet) shutdown(ctx context.Context) {
	if i != nil {
		i.srv.Shutdown(ctx)
	}
}

// keep fetches what is missing, for as long as ctx lasts.
func (i *inlet) keep(ctx context.Context) {
	pause := inletPause
	for {
		select {
		case <-i.lost:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if err := i.fetch(); err != nil {
			i.log.Warn("inbound ports are still missing", "error", err)
			pause = min(2*pause, maxInletPause)
			i.wake()
			continue
		}
		pause = inletPause
	}
}

func (i *inlet) wake() {
	select {
	case i.lost <- struct{}{}:
	default:
	}
}

// fetch asks for what is missing and serves what comes.
func (i *inlet) fetch() error {
	i.mu.Lock()
	have := slices.Clone(i.have)
	i.mu.Unlock()
	got, err := ports.Fetch(egress.LocalPortsSocket, i.token, have)
	errs := []error{err}
	for _, p := range got {
		errs = append(errs, i.serve(p))
	}
	return errors.Join(errs...)
}

// serve serves one socket from now on. One that fails is fetched anew.
func (i *inlet) serve(o ports.Opened) error {
	defer o.File.Close()
	p := ingress.Port{Label: o.Label, Host: o.Port.Port, To: o.To}
	var run func() error
	switch o.Network {
	case ports.TCP:
		l, err := net.FileListener(o.File)
		if err != nil {
			return err
		}
		run = func() error { return i.srv.ServeTCP(l, p) }
	case ports.UDP:
		c, err := net.FilePacketConn(o.File)
		if err != nil {
			return err
		}
		run = func() error { return i.srv.ServeUDP(c.(*net.UDPConn), p) }
	default:
		return fmt.Errorf("port %q: network %q", o.Label, o.Network)
	}
	key := o.Key()
	i.mu.Lock()
	i.have = append(i.have, key)
	i.mu.Unlock()
	go func() {
		err := run()
		if err == nil {
			return // shut down
		}
		i.log.Error("inbound port lost", "port", key, "error", err)
		i.mu.Lock()
		i.have = slices.DeleteFunc(i.have, func(k string) bool { return k == key })
		i.mu.Unlock()
		i.wake()
	}()
	return nil
}
