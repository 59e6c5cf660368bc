package plugin

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// patience is how long a test waits for what must come. Nothing asserts that
// something is quick.
const patience = time.Minute

// bench is a plugin under a client, over a runner in memory that outlives it.
type bench struct {
	t       *testing.T
	fake    *runnertest.Fake
	control *testControl
	outputs *fakeOutputs
	host    *host.Plugin
	stage   string
	parked  string

	mu       sync.Mutex
	plugins  []*Plugin
	events   []host.Event
	prints   []host.Fingerprint
	breaches []host.Breach
	buildErr error
	builds   int

	waits atomic.Int32 // calls of WaitTask that have come in
}

// counted is a plugin that counts who waits.
type counted struct {
	*Plugin
	waits *atomic.Int32
}

func (c *counted) WaitTask(ctx context.Context, r *driverpb.WaitTaskRequest) (*driverpb.WaitTaskResponse, error) {
	c.waits.Add(1)
	return c.Plugin.WaitTask(ctx, r)
}

// benchOptions is what differs from test to test.
type benchOptions struct {
	fake   runnertest.Options
	config map[string]any
	slots  int
	legacy bool // a client of 1.6
	// wrap puts something between the plugin and its runner.
	wrap func(runner.Runner) runner.Runner
	// mayBreach names traps that the test walks into on purpose.
	mayBreach []host.Trap
}

func newBench(t *testing.T, o benchOptions) *bench {
	t.Helper()
	b := &bench{
		t: t, fake: runnertest.New(o.fake), control: newTestControl(t), outputs: newFakeOutputs(),
		stage: filepath.Join(t.TempDir(), "stage"), parked: t.TempDir(),
	}
	slots := o.slots
	if slots == 0 {
		slots = 16
	}
	drv := driver.NewDocker(b.fake, driver.DockerOpts{TotalSlots: slots})
	var r runner.Runner = b.fake
	if o.wrap != nil {
		r = o.wrap(b.fake)
	}
	runDir := func(run uuid.UUID) string { return filepath.Join(b.stage, "..", run.String()) }
	build := func(context.Context, HostConfig, *slog.Logger) (*Backend, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.builds++
		if b.buildErr != nil {
			return nil, b.buildErr
		}
		return &Backend{Driver: drv, Runner: r, Control: b.control, Outputs: b.outputs, Ref: runnertest.Ref, StageRoot: b.stage, RunDir: runDir, ParkDir: b.parked}, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	b.host, err = host.InMemory(ctx, func(log hclog.Logger) wire.Server {
		p := New(Options{Build: build, Version: "1.2.3"}, log)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.plugins = append(b.plugins, p)
		return &counted{p, &b.waits}
	}, host.Options{
		PluginConfig: o.config, Node: host.LocalNode(), RelaunchWait: 10 * time.Millisecond, Legacy: o.legacy,
		OnEvent:       func(e host.Event) { b.mu.Lock(); b.events = append(b.events, e); b.mu.Unlock() },
		OnFingerprint: func(f host.Fingerprint) { b.mu.Lock(); b.prints = append(b.prints, f); b.mu.Unlock() },
		OnBreach:      func(x host.Breach) { b.mu.Lock(); b.breaches = append(b.breaches, x); b.mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close(o.mayBreach) })
	return b
}

// close ends the host and tells what it has to find fault with.
func (b *bench) close(mayBreach []host.Trap) {
	b.host.Close()
	left, _ := filepath.Glob(b.stage + "/*")
	for _, dir := range left { // of tasks that the test leaves running
		if err := taskpath.Unstage(dir); err != nil {
			b.t.Error(err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.breaches {
		if !slices.Contains(mayBreach, x.Trap) {
			b.t.Errorf("breach of the protocol: %s", x.Error())
		}
	}
}

// plugin is the one that serves now.
func (b *bench) plugin() *Plugin {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.plugins[len(b.plugins)-1]
}

// task lays out the folders of a new attempt of a task and encodes its config.
func (b *bench) task(name string, config map[string]any) host.TaskConfig {
	b.t.Helper()
	alloc := uuid.NewString()
	dir := filepath.Join(b.t.TempDir(), alloc)
	for _, p := range []string{name + "/local", name + "/secrets", "alloc/logs", "alloc/data", "alloc/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o777); err != nil {
			b.t.Fatal(err)
		}
	}
	env := map[string]string{"NOMAD_ALLOC_ID": alloc, "NOMAD_TASK_NAME": name}
	if config["image"] == nil {
		config["image"] = "busybox:1"
	}
	data, err := b.host.EncodeTaskConfig(b.ctx(), config, host.Scope{Env: env})
	if err != nil {
		b.t.Fatal(err)
	}
	return host.TaskConfig{
		ID: alloc + "/" + name + "/" + uuid.NewString()[:8], Name: name, GroupName: "g", JobName: "j", JobID: "j",
		Namespace: "default", AllocID: alloc, DriverConfig: data, Env: env, AllocDir: dir,
		Resources:  host.Resources{CPU: 100, MemoryMB: 64},
		StdoutPath: filepath.Join(dir, "alloc/logs/."+name+".stdout.fifo"),
		StderrPath: filepath.Join(dir, "alloc/logs/."+name+".stderr.fifo"),
	}
}

// start starts a task and expects that to work.
func (b *bench) start(name string, config map[string]any) (host.TaskConfig, host.TaskHandle) {
	b.t.Helper()
	tc := b.task(name, config)
	h, _, err := b.host.StartTask(b.ctx(), tc)
	if err != nil {
		b.t.Fatal(err)
	}
	return tc, h
}

func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// wait waits for a task's exit.
func (b *bench) wait(id string) host.ExitResult {
	b.t.Helper()
	r, err := b.host.WaitTask(b.ctx(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// destroy takes a task down as a client does after every exit.
func (b *bench) destroy(id string) {
	b.t.Helper()
	if err := b.host.DestroyTask(b.ctx(), id, true); err != nil {
		b.t.Fatal(err)
	}
}

// eventually waits until what holds.
func (b *bench) eventually(what string, holds func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never: %s", what)
		}
	}
}

// crash kills the plugin under its living client.
func (b *bench) crash() {
	b.t.Helper()
	before := b.host.Launches()
	if err := b.host.Crash(b.ctx()); err != nil {
		b.t.Fatal(err)
	}
	b.eventually("the plugin is back", func() bool { return b.host.Launches() > before })
}

// said lists the messages of a task's events.
func (b *bench) said(id string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, e := range b.events {
		if e.TaskID == id {
			out = append(out, e.Message)
		}
	}
	return out
}

// ops lists the verbs the runner was asked for about a sandbox.
func (b *bench) ops(ref string) []string {
	var out []string
	for _, c := range b.fake.Calls() {
		if c.Ref == ref {
			out = append(out, c.Op)
		}
	}
	return out
}

// nothingLeft checks that no sandbox, run or mount is left.
func (b *bench) nothingLeft() {
	b.t.Helper()
	list, err := b.fake.ListSandboxes(b.t.Context())
	if err != nil || len(list) > 0 {
		b.t.Errorf("sandboxes are left: %v, %v", list, err)
	}
	if left := b.control.Runs(); len(left) > 0 {
		b.t.Errorf("the control plane still knows %v", left)
	}
	if left := b.outputs.known(); len(left) > 0 {
		b.t.Errorf("the outputs still know %v", left)
	}
	if left, _ := filepath.Glob(b.stage + "/*"); len(left) > 0 {
		b.t.Errorf("staged mounts are left: %v", left)
	}
}

func args(argv ...string) map[string]any {
	list := make([]any, len(argv)-1)
	for i, a := range argv[1:] {
		list[i] = a
	}
	return map[string]any{"command": argv[0], "args": list}
}
