// Package proxy is the engine of wardyn-proxy: the one way out of a sandbox. It
// listens on the sandbox's side, gives every request one verdict by one
// function, dials only what was vetted, looks at the first bytes of tunnels,
// and writes a record of everything.
//
// The engine knows no network of its own: resolver, dialler, upstream roots,
// decision sink and listeners come from its caller.
package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/approval"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/audit"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/dialguard"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/origin"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Resolver turns an absolute name into addresses; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Sink takes decision records; *audit.Log is one.
type Sink interface {
	Record(egress.DecisionLog)
}

// ControlPlane is what the engine asks of the run's control plane.
type ControlPlane interface {
	approval.Client
	Injection(ctx context.Context, grant uuid.UUID) (egress.ResolvedInjection, error)
	// Mint mints the credential of a grant.
	Mint(ctx context.Context, grant uuid.UUID) (egress.MintedCredential, error)
	// Do forwards one of the sandbox's own requests.
	Do(ctx context.Context, method, path string, body io.Reader, contentType string, length int64) (*http.Response, error)
}

// Options make a Server. Config and Node are required, the rest has defaults.
type Options struct {
	Config egress.Config
	Node   egress.NodeConfig
	// Resolver answers for names that policy allowed; nil means DNS.
	Resolver Resolver
	// Dial connects to a vetted address; nil means the network, with the
	// address guard as a second lock on every socket.
	Dial origin.DialFunc
	// Roots verify upstream TLS; nil means Node.CARoots, else the system's.
	Roots *x509.CertPool
	// Sink takes the decision records.
	Sink Sink
	// Control is the run's control plane; nil means that there is none.
	Control ControlPlane
	// ApprovalTrust is how long an approval holds before it is read again; 0
	// means a minute.
	ApprovalTrust time.Duration
	// CredentialTrust is how long a value is injected before it is resolved
	// again; 0 is until shortly before its end.
	CredentialTrust time.Duration
	// Own is asked for the node's own addresses, which take the place of
	// Node.Own; nil means that those do not change.
	Own func(context.Context) ([]string, error)
	// OwnTrust is how old that list may be when an address is vetted.
	OwnTrust time.Duration
	// Quiet is called when the last connection has been gone for a while, to
	// give memory back; nil for nothing.
	Quiet func()
	// Evaluator replaces the host and method lists of the policy; nil keeps them.
	Evaluator egress.Evaluator
	// Mask learns every secret the engine holds.
	Mask   *audit.Mask
	Logger *slog.Logger
}

// Server is the proxy of one run.
type Server struct {
	o        Options
	runID    uuid.UUID
	policy   *policy.Policy
	guard    *dialguard.Guard
	book     *approval.Book
	resolver Resolver
	pool     origin.Pool
	tls      *interception
	h2       *http2
	parent   *parent
	creds    credentials
	git      gitTokens
	names    nameBudget
	own      ownList
	turning  chan struct{} // clients being turned away over the cap
	brokered chan struct{} // brokered requests under way
	recent   refusals
	flowSeq  flowIDs
	flows    registry
	log      *slog.Logger

	ctx    context.Context // of everything that serves
	cancel context.CancelFunc
	fronts sync.WaitGroup // connections that are served
	wg     sync.WaitGroup // the server's own goroutines
}

// New builds a server from its configuration. Every fault that can be seen
// without asking anybody is in the error.
//
// The server lives until Shutdown, or until ctx ends.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Mask == nil {
		o.Mask = &audit.Mask{}
	}
	runID, err := uuid.Parse(o.Config.RunID)
	if err != nil {
		return nil, fmt.Errorf("run_id: %w", err)
	}
	guard, err := dialguard.New(o.Node)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	pol, err := policy.Load(policy.Input{Spec: o.Config.Policy, Node: o.Node, Guard: guard, Injection: o.Config.Injection})
	if err != nil {
		return nil, err
	}
	for _, w := range pol.Warnings() {
		o.Logger.Warn(w)
	}
	tlsParts, err := newInterception(o)
	if err != nil {
		return nil, err
	}
	up, secrets, err := parseParent(o.Config.UpstreamProxyURL, o.Node.ProxyBypass)
	if err != nil {
		return nil, err
	}
	o.Mask.Add(secrets...)
	s := &Server{o: o, tls: tlsParts, parent: up, runID: runID, policy: pol, guard: guard, log: o.Logger, resolver: o.Resolver, flowSeq: newFlowIDs(),
		turning: make(chan struct{}, maxTurning), brokered: make(chan struct{}, maxBrokered)}
	if s.resolver == nil {
		s.resolver = newResolver(o.Node.Resolvers)
	}
	if o.Control != nil {
		s.book = approval.NewBook(approval.Options{
			RunID: runID, Client: o.Control, Mode: pol.Mode(), Logger: o.Logger,
			Hold: time.Duration(o.Node.HoldSeconds) * time.Second, MaxHolds: o.Node.MaxHolds, Trust: o.ApprovalTrust,
		})
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if s.tls.minter != nil {
		s.h2 = newHTTP2(s)
	}
	s.wg.Go(s.janitor)
	return s, nil
}

// Prepare asks the control plane for everything that must be there before the
// first request: the values of all injection rules.
func (s *Server) Prepare(ctx context.Context) error {
	s.announceParent()
	return s.resolveCredentials(ctx)
}

// Shutdown stops accepting, lets requests finish until ctx ends, then cuts
// every flow that is left.
func (s *Server) Shutdown(ctx context.Context) {
	s.flows.closeListeners()
	done := make(chan struct{})
	go func() { s.fronts.Wait(); close(done) }()
	s.flows.closeIdle()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.cancel()
	s.flows.cutAll("shutdown")
	if s.h2 != nil {
		s.h2.shutdown()
	}
	<-done
	s.wg.Wait()
	s.pool.Close()
}

var errShutdown = errors.New("the proxy is shutting down")
