package docker

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// fakeTools are tools whose image is its own id.
type fakeTools struct{}

func (fakeTools) RecorderPath() (string, error)  { return "/var/lib/wardyn/bin/wardyn-rec", nil }
func (fakeTools) Image() ([]byte, string, error) { return []byte("sha256:tools"), "sha256:tools", nil }

// fakeControl is a control plane whose sidecars are ready when they start.
type fakeControl struct {
	dir    *datadir.Dir
	mu     sync.Mutex
	open   map[uuid.UUID]chan struct{}
	config []byte
	listen netip.Addr
	never  bool // no sidecar gets ready
	err    error
}

func (c *fakeControl) Open(_ context.Context, run uuid.UUID, config []byte, net netpool.Plan) (Endpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return Endpoint{}, c.err
	}
	ready := make(chan struct{})
	c.open[run], c.config, c.listen = ready, config, net.Sidecar
	if _, err := os.Stat(filepath.Join(c.dir.RunDir(run), controlFolder)); err == nil && !c.never {
		close(ready) // a slot's sidecar has been waiting for this
	}
	return Endpoint{Dir: filepath.Join(c.dir.RunDir(run), "control"), Ready: ready}, nil
}

func (c *fakeControl) Expect(run uuid.UUID) (Endpoint, error) {
	return c.Open(context.Background(), run, c.config, netpool.Plan{Sidecar: c.listen})
}

func (c *fakeControl) Close(run uuid.UUID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, run)
	return nil
}

// start is the engine's hook: a sidecar that starts gets ready.
func (c *fakeControl) start(name string) {
	id, ok := strings.CutPrefix(name, proxyPrefix)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ready := c.open[uuid.MustParse(strings.TrimPrefix(id, agentPrefix))]; ok && !c.never && ready != nil {
		close(ready)
	}
}

// fakeWorld is a runner over an engine in memory, every class of which works.
type fakeWorld struct {
	*Runner
	engine  *fakeEngine
	control *fakeControl
	dir     *datadir.Dir
}

func newFakeWorld(t *testing.T) *fakeWorld {
	t.Helper()
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir.RunRoot()); dir.RemoveRunRoot() })
	w := &fakeWorld{engine: newFakeEngine(), control: &fakeControl{dir: dir, open: make(map[uuid.UUID]chan struct{})}, dir: dir}
	w.engine.started = w.control.start
	w.Runner, err = newRunner(Options{Dir: dir, Control: w.control, Tools: fakeTools{}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}, w.engine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	w.assumeWorks(t, types.CC1, "runc")
	w.assumeWorks(t, types.CC2, "runsc")
	return w
}

// assumeWorks stands in for a probe that succeeded.
func (r *Runner) assumeWorks(t *testing.T, class types.ConfinementClass, rt string) {
	t.Helper()
	host, err := r.facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.findings.mu.Lock()
	defer r.findings.mu.Unlock()
	r.findings.known[subject{class, rt}] = &finding{known: true, at: time.Now().Add(time.Hour), key: r.engineKeyAt(host, r.findings.epoch)}
}

func fakeSpec() runner.SandboxSpec {
	return runner.SandboxSpec{RunID: uuid.New(), Image: "agent:1", Task: &runner.TaskProcess{Argv: []string{"true"}}}
}

// nothingLeft fails the test when a run left anything anywhere.
func (w *fakeWorld) nothingLeft(t *testing.T, run uuid.UUID) {
	t.Helper()
	for _, x := range w.engine.labelled() {
		if !strings.Contains(x, egressPrefix) {
			t.Errorf("left on the engine: %s", x)
		}
	}
	if len(w.control.open) > 0 {
		t.Error("a control socket is open")
	}
	if _, err := w.dir.LoadRecord(run); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("record: %v", err)
	}
	if _, err := os.Stat(w.dir.RunDir(run)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("run directory: %v", err)
	}
	if o, err := w.runs.Owners(); err != nil || len(o) > 0 {
		t.Errorf("leases: %v, %v", o, err)
	}
}
