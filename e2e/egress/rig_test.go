package egress

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/mitm"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// pool is this package's own egress pool.
const pool = "10.214.212.0/22"

// limit bounds a test's wait for anything at all.
const limit = testenv.Patience

// rig is one installation, with a client of its own and an upstream.
type rig struct {
	*host.Plugin
	engine                   *client.Client
	endpoint, binary         string
	image, data, dir, caFile string
	config                   map[string]any
	memory                   int64 // MiB of a task
	up                       *upstream
	log                      *testenv.Buffer

	mu     sync.Mutex
	events []host.Event
}

// newRig launches the driver in a private data dir with options beside its
// own. When the test ends nothing of the installation is left.
func newRig(t *testing.T, options map[string]any) *rig {
	t.Helper()
	return newRigWith(t, nil, options)
}

// newRigWith is newRig with files in the image of its tasks.
func newRigWith(t *testing.T, files map[string]string, options map[string]any) *rig {
	t.Helper()
	if files == nil {
		files = map[string]string{}
	}
	client, err := os.ReadFile(testenv.Build(t, "./e2e/egress/testdata/client"))
	if err != nil {
		t.Fatal(err)
	}
	files["bin/client"] = string(client)
	r := &rig{endpoint: testenv.Engine(t), binary: testenv.Driver(t), dir: t.TempDir(), log: &testenv.Buffer{}, memory: 128}
	r.engine, r.data, r.caFile = testenv.Client(t, r.endpoint), filepath.Join(r.dir, "data"), filepath.Join(r.dir, "ca.pem")
	r.image = testenv.ImageWith(t, testenv.ImageConfig{Cmd: []string{"/bin/sh"}, ExtraFiles: files})
	r.up = newUpstream(t, r.caFile)
	r.config = map[string]any{
		"data_dir": r.data, "endpoint": r.endpoint, "egress_subnet_pool": pool, "ca_file": r.caFile,
		"private_hosts": []any{map[string]any{
			"api.example.internal": []any{r.up.addr}, "other.example.internal": []any{r.up.addr}, "git.example.internal": []any{r.up.addr},
		}},
	}
	for k, v := range options {
		r.config[k] = v
	}
	t.Cleanup(func() { r.takeDown(t) })
	r.launch(t)
	return r
}

func (r *rig) launch(t *testing.T) {
	t.Helper()
	p, err := host.Launch(deadline(t), host.Options{
		Path: r.binary, PluginConfig: r.config, Node: host.LocalNode(), Log: r.log, LogLevel: "debug",
		RelaunchWait: 200 * time.Millisecond,
		OnEvent: func(e host.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Plugin = p
}

func (r *rig) takeDown(t *testing.T) {
	if r.Plugin == nil {
		return
	}
	r.Close()
	for _, b := range r.Breaches() {
		t.Errorf("breach: %v", &b)
	}
	id, err := os.ReadFile(filepath.Join(r.data, "instance"))
	if err != nil {
		t.Errorf("the installation has no id: %v", err)
		return
	}
	file := filepath.Join(r.dir, "purge.hcl")
	conf := fmt.Sprintf("data_dir = %q\nendpoint = %q\negress_subnet_pool = %q\n", r.data, r.endpoint, pool)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command(r.binary, "purge", "-plugin-config", file, "-kept", "-yes").CombinedOutput(); err != nil {
		t.Errorf("purge: %v\n%s", err, out)
	}
	for _, x := range testenv.Leftovers(t, r.endpoint, "wardyn.instance="+strings.TrimSpace(string(id))) {
		t.Errorf("left behind: %s", x)
	}
	if t.Failed() {
		t.Logf("the driver's log:\n%s", r.log.String())
	}
}

// told returns the events of a task, as one text.
func (r *rig) told(task string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, e := range r.events {
		if e.TaskID == task {
			fmt.Fprintf(&b, "%s %v\n", e.Message, e.Annotations)
		}
	}
	return b.String()
}

// each runs a test under every runtime, one after the other: plugin and upstream
// are shared. bothAtOnce does not wait.
var (
	each       = testenv.EachClass
	bothAtOnce = testenv.EachClassAtOnce
)

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
	rig   *rig
	alloc *host.Alloc
	out   *testenv.Buffer
}

// prepare makes a task that idles, with config beside; it is not started.
func (r *rig) prepare(t *testing.T, class string, config map[string]any) *work {
	t.Helper()
	w := &work{rig: r, out: &testenv.Buffer{}}
	all := map[string]any{"image": r.image, "confinement": class, "idle": true}
	for k, v := range config {
		all[k] = v
	}
	var err error
	w.alloc, err = r.NewAlloc(deadline(t), host.AllocSpec{
		Root: filepath.Join(r.dir, "allocs"), ID: uuid.NewString(), JobID: "job", JobName: "job", Namespace: "default", Group: "main",
	})
	if err == nil {
		w.Task, err = w.alloc.NewTask(host.TaskSpec{
			Name: "main", Stdout: w.out, Stderr: w.out, StatsInterval: -1,
			Resources: host.Resources{CPU: 200, MemoryMB: w.rig.memory}, Config: all,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.end(t) })
	return w
}

func (w *work) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if id := w.ID(); id != "" {
		if err := w.rig.DestroyTask(ctx, id, true); err != nil {
			t.Errorf("destroy at the end: %v", err)
		}
		w.Wait(ctx)
	}
	if err := w.alloc.Remove(); err != nil {
		t.Error(err)
	}
}

func (r *rig) start(t *testing.T, class string, config map[string]any) *work {
	t.Helper()
	w := r.prepare(t, class, config)
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return w
}

// secret renders a file into the task's secrets folder.
func (w *work) secret(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir().Secrets, name), []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sh runs a shell command in the sandbox and returns what it printed.
func (w *work) sh(t *testing.T, script string) string {
	t.Helper()
	return w.exec(t, "/bin/sh", "-c", script)
}

func (w *work) exec(t *testing.T, argv ...string) string {
	t.Helper()
	var out testenv.Buffer
	if _, err := w.Exec(deadline(t), host.ExecRequest{Command: argv, Stdout: &out, Stderr: &out}); err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return out.String()
}

// recorded is what the task's decisions say once all of parts are in them: a
// sidecar delivers its records in its own time.
func (w *work) recorded(t *testing.T, parts ...string) (all string) {
	t.Helper()
	eventually(t, fmt.Sprintf("records with %q", parts), func() bool {
		all = w.exec(t, "wardyn", "decisions", "-json", "-n", "100")
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(all, p) })
	})
	return all
}

func (w *work) run(t *testing.T) string     { return w.state(t).Run }
func (w *work) session(t *testing.T) string { return w.state(t).Session }

// state is what the driver's state says to those who read it.
func (w *work) state(t *testing.T) (s struct{ Run, Session string }) {
	t.Helper()
	if err := json.Unmarshal(w.Handle().DriverState, &s); err != nil || s.Run == "" {
		t.Fatalf("the driver's state names no run: %q, %v", w.Handle().DriverState, err)
	}
	return s
}

// containers are the ids of the run's containers, by component.
func (w *work) containers(t *testing.T) map[string]string {
	t.Helper()
	list, err := w.rig.engine.ContainerList(deadline(t), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "wardyn.run-id="+w.run(t))),
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, c := range list {
		out[c.Labels["wardyn.component"]] = c.ID
	}
	return out
}

// upstream is a host beyond the sidecar, with TLS on port 443 and without on
// 8080, that remembers what it was sent.
type upstream struct {
	addr string
	mux  *http.ServeMux

	mu   sync.Mutex
	seen []http.Header
}

func newUpstream(t *testing.T, caFile string) *upstream {
	t.Helper()
	cert, key, err := control.MintCA(uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	minter, err := mitm.New(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(caFile, []byte(cert), 0o600); err != nil {
		t.Fatal(err)
	}
	u := &upstream{mux: http.NewServeMux()}
	l := testenv.Listen(t, pool, 443)
	u.addr, _, _ = strings.Cut(l.Addr().String(), ":")
	srv := &http.Server{Handler: u, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name, err := egress.ParseHost(h.ServerName)
			if err != nil {
				return nil, err
			}
			return minter.Leaf(name)
		},
	}}
	plain := &http.Server{Handler: u, ReadHeaderTimeout: 10 * time.Second}
	go srv.ServeTLS(l, "", "")
	go plain.Serve(testenv.Listen(t, pool, plainPort))
	t.Cleanup(func() { srv.Close(); plain.Close() })
	u.mux.HandleFunc("/stream", stream)
	return u
}

// plainPort is where the upstream speaks plain HTTP.
const plainPort = 8080

// stream says something now and then until nobody listens any more.
func stream(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		fmt.Fprintln(w, "streaming")
		w.(http.Flusher).Flush()
		time.Sleep(100 * time.Millisecond)
	}
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.seen = append(u.seen, r.Header.Clone())
	u.mu.Unlock()
	if _, pattern := u.mux.Handler(r); pattern != "" {
		u.mux.ServeHTTP(w, r)
		return
	}
	fmt.Fprintf(w, "hello from %s%s, you sent %s", r.Host, r.URL.Path, r.Header.Get("X-Api-Key"))
}

// last is a header of the latest request.
func (u *upstream) last(header string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.seen) == 0 {
		return ""
	}
	return u.seen[len(u.seen)-1].Get(header)
}
