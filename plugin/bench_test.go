package plugin

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// patience is how long a test waits for what must come. Nothing asserts that
// something is quick.
const patience = 30 * time.Second

// bench is a plugin under a client, over a runner in memory that outlives it.
type bench struct {
	t       *testing.T
	fake    *runnertest.Fake
	control *testControl
	outputs *fakeOutputs
	host    *host.Plugin
	stage   string

	mu       sync.Mutex
	plugins  []*Plugin
	events   []host.Event
	prints   []host.Fingerprint
	breaches []host.Breach
	buildErr error
	builds   int
}

// benchOptions is what differs from test to test.
type benchOptions struct {
	fake   runnertest.Options
	config map[string]any
	slots  int
	// wrap puts something between the plugin and its runner.
	wrap func(runner.Runner) runner.Runner
	// mayBreach names traps that the test walks into on purpose.
	mayBreach []host.Trap
}

func newBench(t *testing.T, o benchOptions) *bench {
	t.Helper()
	b := &bench{
		t: t, fake: runnertest.New(o.fake), control: newTestControl(t), outputs: newFakeOutputs(),
		stage: filepath.Join(t.TempDir(), "stage"),
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
		return &Backend{Driver: drv, Runner: r, Control: b.control, Outputs: b.outputs, Ref: runnertest.Ref, StageRoot: b.stage, RunDir: runDir}, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	b.host, err = host.InMemory(ctx, func(log hclog.Logger) wire.Server {
		p := New(Options{Build: build, Version: "1.2.3"}, log)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.plugins = append(b.plugins, p)
		return p
	}, host.Options{
		PluginConfig: o.config, Node: host.LocalNode(), RelaunchWait: 10 * time.Millisecond,
		OnEvent:       func(e host.Event) { b.mu.Lock(); b.events = append(b.events, e); b.mu.Unlock() },
		OnFingerprint: func(f host.Fingerprint) { b.mu.Lock(); b.prints = append(b.prints, f); b.mu.Unlock() },
		OnBreach:      func(x host.Breach) { b.mu.Lock(); b.breaches = append(b.breaches, x); b.mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.host.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, x := range b.breaches {
			if !slices.Contains(o.mayBreach, x.Trap) {
				t.Errorf("breach of the protocol: %s", x.Error())
			}
		}
	})
	return b
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

// testControl is the real control plane, with a way to fail and one to make a
// sidecar's decision arrive.
type testControl struct {
	t *testing.T
	*control.Server

	mu      sync.Mutex
	heard   map[uuid.UUID]func(egress.DecisionLog)
	resumed []uuid.UUID
	fail    error // of Prepare and Resume
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
	return c.Server.Resume(ctx, r)
}

// post makes a decision of a run's sidecar arrive, as far as tasks hear of it.
func (c *testControl) post(run uuid.UUID, d egress.DecisionLog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[run](d)
}

// fakeOutputs keeps what main processes print in memory.
type fakeOutputs struct {
	mu    sync.Mutex
	runs  map[string]*fakeOutput
	lost  int64         // reported by Resume
	again int           // how often a run was resumed
	stuck chan struct{} // when set, nothing is delivered until it is closed
}

type fakeOutput struct {
	mu   sync.Mutex
	text [3]strings.Builder // by stream number
	conn net.Conn
	done chan struct{}
	died chan struct{} // closed when what carries it has died
}

func newFakeOutputs() *fakeOutputs { return &fakeOutputs{runs: map[string]*fakeOutput{}} }

func (o *fakeOutputs) Sink(t keeper.Task) runner.OutputSink { return fakeSink{o, t.ID} }

type fakeSink struct {
	to *fakeOutputs
	id string
}

func (s fakeSink) Follow(_ context.Context, _ string, out runner.OutputStream) error {
	s.to.follow(s.id, out)
	return nil
}

func (o *fakeOutputs) follow(id string, s runner.OutputStream) {
	out := &fakeOutput{conn: s.Conn, done: make(chan struct{}), died: make(chan struct{})}
	o.mu.Lock()
	if before := o.runs[id]; before != nil {
		for i := range out.text {
			out.text[i].WriteString(before.text[i].String())
		}
	}
	o.runs[id] = out
	o.mu.Unlock()
	go func() {
		defer close(out.done)
		defer s.Conn.Close()
		out.copy(s.Conn, s.Framed)
	}()
}

func (o *fakeOutput) copy(from io.Reader, framed bool) {
	head := make([]byte, 8)
	for {
		stream, n := byte(1), uint32(1)
		if framed {
			if _, err := io.ReadFull(from, head); err != nil {
				return
			}
			stream, n = head[0], binary.BigEndian.Uint32(head[4:])
		}
		buf := make([]byte, n)
		if _, err := io.ReadFull(from, buf); err != nil {
			return
		}
		o.mu.Lock()
		o.text[stream].Write(buf)
		o.mu.Unlock()
	}
}

// die is the death of a keeper: what it carried stops.
func (o *fakeOutputs) die() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, out := range o.runs {
		out.conn.Close()
		close(out.died)
	}
}

func (o *fakeOutputs) Wait(ctx context.Context, id string) (keeper.Status, error) {
	o.mu.Lock()
	out, stuck := o.runs[id], o.stuck
	o.mu.Unlock()
	if out == nil {
		return keeper.Status{State: keeper.Unknown}, nil
	}
	done := out.done
	if stuck != nil {
		done = stuck
	}
	select {
	case <-out.died:
		return keeper.Status{}, keeper.ErrGone
	default:
	}
	select {
	case <-out.died:
		return keeper.Status{}, keeper.ErrGone
	case <-done:
		return keeper.Status{State: keeper.Ended}, nil
	case <-ctx.Done():
		return keeper.Status{}, ctx.Err()
	}
}

func (o *fakeOutputs) Resume(ctx context.Context, t keeper.Task, ref string, alive bool, from runner.OutputReader) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.again++
	if !alive {
		out := &fakeOutput{done: make(chan struct{}), died: make(chan struct{})}
		for i, stream := range []string{"", "stdout", "stderr"} {
			if stream == "" {
				continue
			}
			r, err := from.ReadLog(ctx, ref, stream)
			if err != nil {
				return 0, err
			}
			b, _ := io.ReadAll(r)
			out.text[i].Write(b)
		}
		close(out.done)
		o.runs[t.ID] = out
		return o.lost, nil
	}
	s, err := from.AttachOutput(ctx, ref)
	if err != nil {
		return 0, err
	}
	o.mu.Unlock()
	o.follow(t.ID, s)
	o.mu.Lock()
	return o.lost, nil
}

func (o *fakeOutputs) resumed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.again
}

func (o *fakeOutputs) Finish(_ context.Context, t keeper.Task, _ time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.runs, t.ID)
	return nil
}

func (o *fakeOutputs) known() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.runs))
}

// printed is what a task's main process has printed so far.
func (o *fakeOutputs) printed(id string) (stdout, stderr string) {
	o.mu.Lock()
	out := o.runs[RunID(TaskID(id)).String()]
	o.mu.Unlock()
	if out == nil {
		return "", ""
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.text[1].String(), out.text[2].String()
}

func args(argv ...string) map[string]any {
	list := make([]any, len(argv)-1)
	for i, a := range argv[1:] {
		list[i] = a
	}
	return map[string]any{"command": argv[0], "args": list}
}
