package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/client"
)

// Deadlines of engine calls (D-12). Streaming calls have none.
const (
	callTimeout   = 30 * time.Second  // one ordinary call
	createTimeout = 120 * time.Second // creating a whole sandbox, pulls not counted
	undoTimeout   = 60 * time.Second  // taking one down, or undoing half of one
)

// Runner implements runner.Runner on a Docker engine. It is safe for
// concurrent use.
type Runner struct {
	opts Options
	api  api
	tool toolImage
	use  use
	// engine-wide findings, refreshed by Probe
	mu       sync.Mutex
	findings findingsCache
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
	if o.Endpoint == "" {
		o.Endpoint = client.DefaultDockerHost
	}
	if !strings.HasPrefix(o.Endpoint, "unix://") {
		return nil, fmt.Errorf("endpoint %q: only a local engine can be used; want unix:///path/to/docker.sock", o.Endpoint)
	}
	c, err := client.NewClientWithOpts(client.WithHost(o.Endpoint), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", o.Endpoint, err)
	}
	return newRunner(o, c), nil
}

func newRunner(o Options, a api) *Runner { return &Runner{opts: o, api: a} }

// Name is "docker".
func (r *Runner) Name() string { return "docker" }

// Close ends idle connections to the engine. Sandboxes are not touched.
func (r *Runner) Close() error { return r.api.Close() }

// call bounds one engine call.
func call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// undo is a context for taking things down: the caller's may be over already.
func undo() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), undoTimeout)
}
