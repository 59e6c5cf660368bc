package docker

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// inflight knows the sandboxes that are being created, so that a kill of one
// ends its creation instead of finding nothing to remove yet. The zero value
// is ready for use.
type inflight struct {
	mu sync.Mutex
	m  map[uuid.UUID]creation
}

type creation struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// begin marks a run as being created. The returned context ends when the run
// is killed; end must be called when creation is over, undo included.
func (f *inflight) begin(ctx context.Context, run uuid.UUID) (_ context.Context, end func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, busy := f.m[run]; busy {
		return nil, nil, fmt.Errorf("run %s is being created already: %w", run, runner.ErrExists)
	}
	if f.m == nil {
		f.m = make(map[uuid.UUID]creation)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := creation{cancel, make(chan struct{})}
	f.m[run] = c
	return ctx, func() {
		cancel()
		f.mu.Lock()
		delete(f.m, run)
		f.mu.Unlock()
		close(c.done)
	}, nil
}

// abort ends a creation and waits until it has undone itself; nil at once when
// there is none.
func (f *inflight) abort(ctx context.Context, run uuid.UUID) error {
	f.mu.Lock()
	c, busy := f.m[run]
	f.mu.Unlock()
	if !busy {
		return nil
	}
	c.cancel()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("run %s is still being created: %w: %w", run, runner.ErrUnavailable, ctx.Err())
	}
}

// busy reports whether a run is being created.
func (f *inflight) busy(run uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, busy := f.m[run]
	return busy
}
