package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/embedded"
	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// world is a runner on a real engine with an instance of its own, a control
// plane made for tests and the stand-in sidecar of testdata.
type world struct {
	*Runner
	cl      *client.Client
	control *standinControl
	pooled  bool // sandboxes get a slot of the pool, made for each
}

// newWorld is a world of which nothing is left when the test ends.
func newWorld(t *testing.T) *world {
	t.Helper()
	endpoint := testenv.Engine(t)
	dir := testenv.Dir(t)
	testenv.NoLeftovers(t, endpoint, labelInstance+"="+dir.Instance())
	control := &standinControl{dir: dir, open: make(map[uuid.UUID]*http.Server)}
	tools, cl := standinTools(t), testenv.Client(t, endpoint)
	r, err := New(Options{
		Endpoint: endpoint, Dir: dir, Control: control, Tools: tools,
		SubnetPool: netip.MustParsePrefix("10.213.0.0/16"),
		Log:        slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(r.RemovePool(ctx), r.RemoveEgressNetwork(ctx), r.Close()); err != nil {
			t.Error(err)
		}
		control.check(t)
		if _, id, err := tools.Image(); err == nil {
			// Another run of these tests may be using it.
			cl.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
		}
	})
	return &world{Runner: r, cl: cl, control: control}
}

var standin struct {
	sync.Once
	files fstest.MapFS
}

// standinTools are the recorder and, in the proxy's place, the stand-in.
func standinTools(t *testing.T) *embedded.Tools {
	t.Helper()
	standin.Do(func() {
		files := fstest.MapFS{}
		for name, pkg := range map[string]string{
			embedded.ProxyName: "./runner/docker/testdata/standin", embedded.RecorderName: "./cmd/wardyn-rec",
		} {
			b, err := os.ReadFile(testenv.Build(t, pkg))
			if err != nil {
				t.Fatal(err)
			}
			files["bin/"+name] = &fstest.MapFile{Data: b}
		}
		standin.files = files
	})
	if standin.files == nil {
		t.Fatal("the stand-in could not be built")
	}
	return embedded.NewFrom(t.TempDir(), standin.files)
}

// sandbox creates a sandbox for a test and removes it with the test.
func (w *world) sandbox(t *testing.T, spec runner.SandboxSpec) string {
	t.Helper()
	if w.pooled {
		if err := w.makeSlot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sb, err := w.CreateSandbox(t.Context(), spec)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.KillSandbox(ctx, AgentName(spec.RunID)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return sb.Ref
}

// probed is what probes of all the engine's runtimes have found. A busy engine
// may not answer a health check in its time.
func (w *world) probed(t *testing.T) (f runner.Findings) {
	t.Helper()
	testenv.Eventually(t, "probes of a healthy engine", func() bool {
		f = w.Probe(t.Context())
		return f.Healthy && !f.Pending
	})
	return f
}

// classFor is the class that a runtime of the tests gives.
func classFor(runtime string) types.ConfinementClass {
	if runtime == "runsc" {
		return types.CC2
	}
	return types.CC1
}

// specFor is a task that waits to be killed, in the class of a runtime.
func specFor(t *testing.T, runtime string) runner.SandboxSpec {
	t.Helper()
	return runner.SandboxSpec{
		RunID: uuid.New(), Image: testenv.Image(t), ConfinementClass: classFor(runtime),
		Task: &runner.TaskProcess{Argv: []string{"sleep", "98765"}, User: "1000:1000"},
	}
}

// standinControl serves each run's configuration on a socket of its own.
type standinControl struct {
	dir *datadir.Dir
	// refuse, when set, is answered to every sidecar in place of its configuration.
	refuse string
	// listen, when set, is given to every sidecar in place of its run leg.
	listen string
	// never: no sidecar is taken for ready.
	never bool

	mu      sync.Mutex
	open    map[uuid.UUID]*http.Server
	configs [][]byte
}

func (c *standinControl) Open(_ context.Context, run uuid.UUID, config []byte, plan netpool.Plan) (Endpoint, error) {
	dir, err := c.dir.MakeRunDir(run)
	if err != nil {
		return Endpoint{}, err
	}
	dir = filepath.Join(dir, "control")
	if err := os.MkdirAll(dir, 0o700); err != nil { // a slot's sidecar has it mounted already
		return Endpoint{}, err
	}
	l, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	if err != nil {
		return Endpoint{}, err
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(l.Addr().String(), 0o666)); err != nil {
		return Endpoint{}, err
	}
	ready := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+egress.PathConfig, func(w http.ResponseWriter, _ *http.Request) {
		if c.refuse != "" {
			http.Error(w, c.refuse, http.StatusServiceUnavailable)
			return
		}
		node := egress.NodeConfig{Listen: firstOf(c.listen, plan.Sidecar.String())}
		json.NewEncoder(w).Encode(egress.SidecarConfig{Proxy: config, Node: node})
	})
	var once sync.Once
	mux.HandleFunc("POST "+egress.PathReady, func(http.ResponseWriter, *http.Request) {
		if !c.never {
			once.Do(func() { close(ready) })
		}
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go s.Serve(l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[run] != nil {
		return Endpoint{}, fmt.Errorf("run %s is open already", run)
	}
	c.open[run] = s
	c.configs = append(c.configs, config)
	return Endpoint{Dir: dir, Ready: ready}, nil
}

func (c *standinControl) Expect(run uuid.UUID) (Endpoint, error) {
	return Endpoint{}, fmt.Errorf("run %s: the stand-in serves one sidecar a run", run)
}

func (c *standinControl) Close(run uuid.UUID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.open[run]; s != nil {
		delete(c.open, run)
		return s.Close()
	}
	return nil
}

// check fails the test when a socket was left open.
func (c *standinControl) check(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for run := range c.open {
		t.Errorf("the control socket of run %s was left open", run)
	}
}
