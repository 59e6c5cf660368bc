// Package ingress carries what arrives at a task's inbound ports into its
// sandbox, and writes a record of each flow: what a client is sent leaves the
// sandbox by a way that no host list sees.
//
// It carries bytes and reads none of them. The task sees the sidecar's address
// as its client's.
package ingress

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Caps on what a run's clients can hold open at once, on all its ports.
const (
	maxConns    = 1024
	maxSessions = 512
)

// dialTimeout bounds a connection to the task; it is one hop away.
const dialTimeout = 5 * time.Second

// Port is one inbound port.
type Port struct {
	Label string
	Host  uint16 // where clients connect
	To    uint16 // where the task listens
}

// Sink takes decision records.
type Sink interface {
	Record(egress.DecisionLog)
}

// Options make a Server; all are required.
type Options struct {
	RunID uuid.UUID
	// Agent is the task's address on the run's network.
	Agent  netip.Addr
	Sink   Sink
	Logger *slog.Logger
}

// Server carries one run's inbound flows.
type Server struct {
	o      Options
	prefix string
	flows  atomic.Uint64
	full   atomic.Int64 // when the last flow over a cap was told, in Unix seconds

	mu      sync.Mutex
	closing bool
	open    map[closer]bool // listeners and both sides of each flow
	conns   int
	work    sync.WaitGroup
}

type closer interface{ Close() error }

// New makes a Server without ports.
func New(o Options) *Server {
	var b [6]byte
	rand.Read(b[:]) // crypto/rand does not fail
	return &Server{o: o, prefix: "in-" + hex.EncodeToString(b[:]) + "-", open: map[closer]bool{}}
}

// Shutdown stops accepting, lets flows end until ctx does, and cuts the rest.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closing = true
	for c := range s.open {
		switch c.(type) {
		case net.Listener, *net.UDPConn:
			c.Close()
		}
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		<-done
	}
}

// enter counts an open socket in; false means that the server is closing.
func (s *Server) enter(c closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.open[c] = true
	s.work.Add(1)
	return true
}

func (s *Server) leave(c closer) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.work.Done()
}

// flow is one client's exchange with the task.
type flow struct {
	s      *Server
	id     string
	port   Port
	scheme string
	client netip.Addr
	start  time.Time
}

// newFlow writes a flow's verdict: a port that is open lets everybody in.
func (s *Server) newFlow(p Port, scheme string, client net.Addr) *flow {
	f := &flow{s: s, id: s.prefix + strconv.FormatUint(s.flows.Add(1), 10), port: p, scheme: scheme, start: time.Now()}
	if ap, err := netip.ParseAddrPort(client.String()); err == nil {
		f.client = ap.Addr().Unmap()
	}
	f.record(egress.Allow, policy.Inbound, "", egress.FlowDetail{Kind: "decision"})
	return f
}

// end writes the end of a flow. up is what left the sandbox.
func (f *flow) end(up, down int64, reason string) {
	f.record(egress.Allow, policy.Inbound, "", egress.FlowDetail{
		Kind: "end", BytesUp: up, BytesDown: down, Close: reason, Millis: time.Since(f.start).Milliseconds(),
	})
}

func (f *flow) record(d egress.Decision, source, cause string, detail egress.FlowDetail) {
	detail.FlowID, detail.Scheme, detail.Rule = f.id, f.scheme, "ports: "+f.port.Label
	detail.Direction = egress.Inbound
	detail.Dialed = netip.AddrPortFrom(f.s.o.Agent, f.port.To).String()
	host := ""
	if f.client.IsValid() {
		host = f.client.String()
	}
	f.s.o.Sink.Record(egress.DecisionLog{
		Request: egress.Request{
			RunID: f.s.o.RunID, Host: host, Port: int(f.port.Host), Method: "INBOUND", Time: f.start.UTC(),
		},
		Decision: d, RuleSource: source, Cause: cause, Via: "direct", Flow: &detail,
	})
}

// refuse records that a client was turned away over a cap, once a second at
// most: whoever floods a port must not fill the records too.
func (s *Server) refuse(p Port, scheme string, most int) {
	now := time.Now()
	if last := s.full.Load(); last == now.Unix() || !s.full.CompareAndSwap(last, now.Unix()) {
		return
	}
	f := &flow{s: s, id: s.prefix + strconv.FormatUint(s.flows.Add(1), 10), port: p, scheme: scheme, start: now}
	f.record(egress.Deny, policy.Limit, fmt.Sprintf("%d flows into this sandbox are open already", most), egress.FlowDetail{Kind: "decision"})
}

// target is where the task listens.
func (s *Server) target(p Port) netip.AddrPort { return netip.AddrPortFrom(s.o.Agent, p.To) }
