package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Deadlines of engine calls. Streaming calls have none.
const (
	callTimeout   = 30 * time.Second  // one ordinary call
	createTimeout = 120 * time.Second // creating a whole sandbox, pulls not counted
	undoTimeout   = 60 * time.Second  // taking one down, or undoing half of one
	layerTimeout  = 120 * time.Second // loading or removing an image: one at a time, behind everybody's commits and pulls
)

// Sizes of what the subnet pools give out.
const (
	RunBits    = 29 // a run: gateway, sidecar, agent
	EgressBits = 22 // all sidecars of an instance, as many as a bridge has ports
)

// The usual pools (options subnet_pool and egress_subnet_pool).
var (
	defaultSubnetPool = netip.MustParsePrefix("10.213.0.0/16")
	defaultEgressPool = netip.MustParsePrefix("10.214.0.0/16")
)

// Runner implements runner.Runner on a Docker engine. It is safe for
// concurrent use.
type Runner struct {
	opts Options
	api  api

	runs   *netpool.Pool // subnets of runs
	egress *netpool.Pool // subnet of the egress network

	use      use            // what is remembered of living sandboxes
	making   inflight       // sandboxes being created
	starts   chan struct{}  // bounds parallel creates
	joins    chan struct{}  // bounds to one what joins or leaves the egress network
	naming   chan struct{}  // bounds to one the images of ours that are given a name
	pulls    pulls          // downloads under way
	admitted admissions     // what registries said of present images
	images   imageBook      // what this installation has pulled
	gc       imageGC        // the clean-up of images
	engine   factsCache     // what the engine says of the host
	findings *findingsCache // what probes found out
	verdicts sharedVerdicts // what they found out for other processes, too
	pool     pool           // the keeping of warm slots
}

// New connects to the engine's socket. It does not talk to it: an engine that
// is away shows in Probe, not here.
func New(o Options) (*Runner, error) {
	switch {
	case o.Dir == nil:
		return nil, errors.New("docker runner: no data dir")
	case o.Control == nil:
		return nil, errors.New("docker runner: no control plane")
	case o.Tools == nil:
		return nil, errors.New("docker runner: no tools")
	case o.Log == nil:
		return nil, errors.New("docker runner: no log")
	}
	c, endpoint, err := connect(o.Endpoint)
	if err != nil {
		return nil, err
	}
	o.Endpoint = endpoint
	return newRunner(o, c)
}

func newRunner(o Options, a api) (*Runner, error) {
	if o.SubnetPool == (netip.Prefix{}) {
		o.SubnetPool = defaultSubnetPool
	}
	if o.EgressPool == (netip.Prefix{}) {
		o.EgressPool = defaultEgressPool
	}
	runs, err := netpool.New(o.Dir, "runs", o.SubnetPool, RunBits)
	if err != nil {
		return nil, fmt.Errorf("option subnet_pool: %w", err)
	}
	egress, err := netpool.New(o.Dir, "egress", o.EgressPool, EgressBits)
	if err != nil {
		return nil, fmt.Errorf("option egress_subnet_pool: %w", err)
	}
	return &Runner{
		opts: o, api: a, runs: runs, egress: egress,
		findings: newFindings(), verdicts: sharedVerdicts{o.SharedVerdicts}, images: imageBook{o.Dir},
		// More at once only makes each of them slower.
		starts: make(chan struct{}, runtime.NumCPU()+1),
		joins:  make(chan struct{}, 1),
		naming: make(chan struct{}, 1),
	}, nil
}

// Name is "docker".
func (r *Runner) Name() string { return "docker" }

// Close ends the filling of the pool and the probes under way, waits until they
// have removed what they had not finished, and lets go of the engine. Sandboxes are not touched.
func (r *Runner) Close() error {
	r.pool.stop()
	r.findings.stop()
	r.stopImageGC()
	return r.api.Close()
}

// call bounds one engine call.
func call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// layers bounds a call that changes what layers the engine has.
func layers(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, layerTimeout)
}

// making bounds an engine call that makes something. The caller's end does not
// cut it short: the engine goes on all the same, and what it then makes would
// come too late for whoever cleans up. The caller's context is looked at after.
func making(ctx context.Context) (context.Context, context.CancelFunc) {
	return call(context.WithoutCancel(ctx))
}

// undo is a context for taking things down: the caller's may be over already.
func undo() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), undoTimeout)
}

// poolError translates a pool's error; option names what an operator can enlarge.
func poolError(option string, err error) error {
	if errors.Is(err, netpool.ErrExhausted) {
		return fmt.Errorf("%w: %w; enlarge option %s or end tasks", runner.ErrExhausted, err, option)
	}
	return err
}
