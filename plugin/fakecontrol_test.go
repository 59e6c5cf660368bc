package plugin

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// testControl is the real control plane, with a way to fail and one to make a
// sidecar's decision arrive.
type testControl struct {
	t *testing.T
	*control.Server

	mu      sync.Mutex
	heard   map[uuid.UUID]func(egress.DecisionLog)
	resumed []uuid.UUID
	fail    error // of Prepare and Resume
	// held, when set, is closed by who lets Resume go on; over counts those that did.
	held chan struct{}
	over int
}

func newTestControl(t *testing.T) *testControl {
	t.Helper()
	// A socket's path is short, so the test's own long folder will not do.
	dir, err := os.MkdirTemp("", "wd")
	if err != nil {
		t.Fatal(err)
	}
	d, err := datadir.Open(filepath.Join(dir, "d"))
	if err != nil {
		t.Fatal(err)
	}
	c := &testControl{t: t, heard: map[uuid.UUID]func(egress.DecisionLog){}}
	c.Server = control.New(control.Options{Dir: d, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		c.Shutdown()
		if err := errors.Join(os.RemoveAll(d.RunRoot()), d.RemoveRunRoot(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *testControl) Prepare(r control.Run) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.heard[r.ID] = r.OnDecision
	return c.Server.Prepare(r)
}

func (c *testControl) Resume(ctx context.Context, r control.Run) (egress.Endpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return egress.Endpoint{}, c.fail
	}
	c.heard[r.ID] = r.OnDecision
	c.resumed = append(c.resumed, r.ID)
	if c.held != nil {
		c.mu.Unlock()
		<-c.held
		c.mu.Lock()
		ctx = context.WithoutCancel(ctx) // it was too late to be stopped
	}
	defer func() { c.over++ }()
	return c.Server.Resume(ctx, r)
}

// post makes a decision of a run's sidecar arrive, as far as tasks hear of it.
func (c *testControl) post(run uuid.UUID, d egress.DecisionLog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[run](d)
}
