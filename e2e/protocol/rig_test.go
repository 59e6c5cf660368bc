package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// pool is this package's own egress pool: of several subnets, since an engine
// may take one for in use that is not.
const pool = "10.214.192.0/20"

// limit bounds a test's wait for anything at all.
const limit = testenv.Patience

// rig is one installation with a client of its own.
type rig struct {
	*host.Plugin
	clients                  []*host.Plugin // every one so far
	engine                   *client.Client
	endpoint                 string
	image, binary, data, dir string
	node                     host.Node
	events                   *eventLog
	log                      *output
	more                     map[string]any // of the operator's options
}

// newRig launches the driver in a private data dir. When the test ends nothing
// of the installation is left, and no answer was one that harms a client.
func newRig(t *testing.T) *rig { return newRigWith(t, nil) }

// newRigWith is newRig with more of the operator's options.
func newRigWith(t *testing.T, more map[string]any) *rig {
	t.Helper()
	r := &rig{
		more:     more,
		endpoint: testenv.Engine(t), image: testenv.Image(t), binary: testenv.Driver(t),
		dir: t.TempDir(), node: host.LocalNode(), events: &eventLog{}, log: &output{},
	}
	r.engine = testenv.Client(t, r.endpoint)
	r.data = filepath.Join(r.dir, "data")
	t.Cleanup(func() { r.takeDown(t) })
	r.Plugin = r.launch(t, nil)
	return r
}

func (r *rig) options(config map[string]any) host.Options {
	return host.Options{
		Path: r.binary, PluginConfig: config, Node: r.node, Log: r.log, LogLevel: "debug",
		OnEvent: r.events.add, RelaunchWait: 200 * time.Millisecond,
	}
}

func (r *rig) config() map[string]any {
	return map[string]any{"data_dir": r.data, "endpoint": r.endpoint, "egress_subnet_pool": pool}
}

// launch starts a client with its plugin, or with the one an earlier client left.
func (r *rig) launch(t *testing.T, left *host.Reattach) *host.Plugin {
	t.Helper()
	config := r.config()
	maps.Copy(config, r.more)
	o := r.options(config)
	o.Reattach = left
	p, err := host.Launch(deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	r.clients = append(r.clients, p)
	return p
}

// restart is an agent that ends in good order and starts again.
func (r *rig) restart(t *testing.T) {
	t.Helper()
	r.Close()
	r.Plugin = r.launch(t, nil)
}

// takeDown ends the clients, purges the installation and counts what is left of it.
func (r *rig) takeDown(t *testing.T) {
	for _, p := range r.clients {
		p.Close()
		for _, b := range p.Breaches() {
			t.Errorf("breach: %v", &b)
		}
	}
	id, err := os.ReadFile(filepath.Join(r.data, "instance"))
	if err != nil {
		t.Errorf("the installation has no id: %v", err)
		return
	}
	if out, err := exec.Command(r.binary, "purge", "-plugin-config", r.optionsFile(t), "-kept", "-yes").CombinedOutput(); err != nil {
		t.Errorf("purge: %v\n%s", err, out)
	}
	for _, x := range testenv.Leftovers(t, r.endpoint, "wardyn.instance="+strings.TrimSpace(string(id))) {
		t.Errorf("left behind: %s", x)
	}
	for _, x := range r.leftOnNode(strings.TrimSpace(string(id))) {
		t.Errorf("left behind: %s", x)
	}
	if t.Failed() {
		t.Logf("end of the driver's log:\n%s", r.log.tail(20000))
	}
}

// optionsFile holds the installation's options, for the command line.
func (r *rig) optionsFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(r.dir, "options.hcl")
	var text strings.Builder
	for k, v := range r.config() {
		fmt.Fprintf(&text, "%s = %q\n", k, v)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Error(err)
	}
	return file
}

// leftOnNode lists mounts, processes and run directories of an installation.
func (r *rig) leftOnNode(id string) []string {
	var out []string
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, r.dir) || strings.Contains(line, "/wardyn/"+id) {
			out = append(out, "mount "+strings.TrimSpace(line))
		}
	}
	for _, kind := range []string{"keeper", "holder"} {
		for _, pid := range testenv.Daemons(kind, id) {
			out = append(out, fmt.Sprint(kind, " process ", pid))
		}
	}
	for _, root := range []string{"/run/wardyn", "/dev/shm/wardyn"} {
		if _, err := os.Stat(filepath.Join(root, id)); err == nil {
			out = append(out, "run directory "+filepath.Join(root, id))
		}
	}
	return out
}

// each runs a test under every runtime, one after the other: a client or plugin
// that ends for one would end for the other. bothAtOnce does not wait.
var (
	each       = testenv.EachClass
	bothAtOnce = testenv.EachClassAtOnce
)

// deadline is the test's context with an end.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for what another process brings about.
var eventually = testenv.Eventually

// work is one task in an allocation of its own.
type work struct {
	*host.Task
	rig      *rig
	alloc    *host.Alloc
	at       host.AllocSpec
	spec     host.TaskSpec
	out, err *output

	abandoned bool // left to the purge
}

// prepare makes a task that runs a shell script, not yet started.
func (r *rig) prepare(t *testing.T, class, script string, change ...func(*host.TaskSpec)) *work {
	t.Helper()
	w := &work{rig: r, out: &output{}, err: &output{}}
	w.at = host.AllocSpec{
		Root: filepath.Join(r.dir, "allocs"), ID: uuid.NewString(), JobID: "job", JobName: "job",
		Namespace: "default", Group: "main",
	}
	w.spec = host.TaskSpec{
		Name: "main", Stdout: w.out, Stderr: w.err, StatsInterval: -1,
		Resources: host.Resources{CPU: 200, MemoryMB: 128},
		Config: map[string]any{
			"image": r.image, "confinement": class, "command": "/bin/sh", "args": []any{"-c", script},
		},
	}
	for _, f := range change {
		f(&w.spec)
	}
	w.task(t)
	t.Cleanup(func() {
		// The test's own context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if id := w.ID(); id != "" && !w.abandoned {
			if err := r.DestroyTask(ctx, id, true); err != nil {
				t.Errorf("destroy at the end: %v", err)
			}
			w.Wait(ctx)
		}
		if err := w.alloc.Remove(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// task makes the client's side of the task for the present client.
func (w *work) task(t *testing.T) {
	t.Helper()
	var err error
	if w.alloc, err = w.rig.NewAlloc(deadline(t), w.at); err != nil {
		t.Fatal(err)
	}
	if w.Task, err = w.alloc.NewTask(w.spec); err != nil {
		t.Fatal(err)
	}
}

// start is prepare and Start.
func (r *rig) start(t *testing.T, class, script string, change ...func(*host.TaskSpec)) *work {
	t.Helper()
	w := r.prepare(t, class, script, change...)
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return w
}

// stored is the handle as it comes back from a client's state.
func (w *work) stored(t *testing.T) host.TaskHandle {
	t.Helper()
	b, err := json.Marshal(w.Handle())
	if err != nil {
		t.Fatal(err)
	}
	var h host.TaskHandle
	if err := json.Unmarshal(b, &h); err != nil {
		t.Fatal(err)
	}
	return h
}

// release lets a script go on that waits for the file /local/go.
func (w *work) release(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir().Local, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// awaitGo is a script's part that waits for release.
const awaitGo = "while [ ! -e /local/go ]; do sleep 0.1; done; "

// exits waits for the task's end and checks its code.
func (w *work) exits(t *testing.T, code int) host.ExitResult {
	t.Helper()
	exit, err := w.Wait(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if exit.ExitCode != code || exit.Err != "" && code >= 0 && !exit.OOMKilled {
		t.Errorf("exit %+v, want code %d", exit, code)
	}
	return exit
}

// containers lists the engine's containers of the task, by component.
func (w *work) containers(t *testing.T) map[string]container.Summary {
	t.Helper()
	list, err := w.rig.engine.ContainerList(deadline(t), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "wardyn.run-id="+w.run(t))),
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]container.Summary{}
	for _, c := range list {
		out[c.Labels["wardyn.component"]] = c
	}
	return out
}

// container is the id of the task's container.
func (w *work) container(t *testing.T) string {
	t.Helper()
	c, ok := w.containers(t)["agent"]
	if !ok {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		exit, err := w.Wait(ctx)
		t.Fatalf("the task has no container; its exit: %+v, %v", exit, err)
	}
	return c.ID
}

// run is the run id as the driver's state holds it.
func (w *work) run(t *testing.T) string {
	t.Helper()
	var s struct{ Run string }
	if err := json.Unmarshal(w.Handle().DriverState, &s); err != nil || s.Run == "" {
		t.Fatalf("the driver's state names no run: %q, %v", w.Handle().DriverState, err)
	}
	return s.Run
}

// gone checks that the engine has nothing of the task any more.
func (w *work) gone(t *testing.T) {
	t.Helper()
	for _, x := range testenv.Leftovers(t, w.rig.endpoint, "wardyn.run-id="+w.run(t)) {
		t.Errorf("left of a destroyed task: %s", x)
	}
}
