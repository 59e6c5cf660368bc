package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// rounds is how often each measure is taken, ours and the peer's in turn.
const rounds = 9

// pool is this package's own egress pool.
const pool = "10.214.228.0/22"

// BenchmarkRatios prints a table: medians of ours and of the plain engine's,
// and the ratio of the two, a row for each measure and runtime.
func BenchmarkRatios(b *testing.B) {
	testenv.Engine(b)
	image := testenv.Image(b)
	fmt.Printf("\n%-32s %-6s %10s %10s %7s\n", "measure", "", "ours", "docker", "ratio")
	for _, rt := range testenv.Runtimes(b) {
		b.Run(rt, func(b *testing.B) {
			r := newRig(b, rt, image)
			r.row("start to running", r.start, r.dockerRun)
			r.row("exec round trip", r.exec, r.dockerExec)
			r.row("64 MiB out of an exec", r.stream, r.dockerStream)
			r.row("stop and remove", r.stop, r.dockerRemove)
			b.ReportMetric(0, "ns/op") // the table is the result
		})
	}
}

// rig is a plugin and an engine beside it. What start has started, stop ends.
type rig struct {
	b       *testing.B
	runtime string
	image   string
	plugin  *host.Plugin
	alloc   *host.Alloc
	tasks   []*host.Task
	names   []string // of plain containers
	n       int      // tasks made
	plain   int      // plain containers made
}

func newRig(b *testing.B, runtime, image string) *rig {
	b.Helper()
	bin := filepath.Join(testenv.Root(b), "bin", "nomad-driver-wardyn")
	dir := b.TempDir()
	config := map[string]any{"data_dir": filepath.Join(dir, "data"), "egress_subnet_pool": pool}
	file := filepath.Join(dir, "plugin.hcl")
	text := fmt.Sprintf("data_dir = %q\negress_subnet_pool = %q\n", config["data_dir"], pool)
	must(b, os.WriteFile(file, []byte(text), 0o600))
	b.Cleanup(func() {
		if out, err := exec.Command(bin, "purge", "-plugin-config", file, "-yes").CombinedOutput(); err != nil {
			b.Errorf("purge: %v\n%s", err, out)
		}
	})
	ctx := b.Context()
	p, err := host.Launch(ctx, host.Options{Path: bin, PluginConfig: config})
	must(b, err)
	b.Cleanup(p.Close)
	for {
		f, err := p.Fingerprint(ctx)
		must(b, err)
		if f.Health == host.Healthy {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	a, err := p.NewAlloc(ctx, host.AllocSpec{Root: filepath.Join(dir, "alloc"), ID: testID(runtime), JobID: "bench", JobName: "bench", Namespace: "default", Group: "g"})
	must(b, err)
	b.Cleanup(func() { a.Remove() })
	return &rig{b: b, runtime: runtime, image: image, plugin: p, alloc: a}
}

func testID(runtime string) string {
	return map[string]string{"runc": "00000000-0000-4000-8000-000000000001", "runsc": "00000000-0000-4000-8000-000000000002"}[runtime]
}

// row measures ours and the peer's in turn and prints the medians.
func (r *rig) row(name string, ours, peer func()) {
	r.b.Helper()
	var a, p []time.Duration
	for range rounds {
		a = append(a, timed(ours))
		p = append(p, timed(peer))
	}
	slices.Sort(a)
	slices.Sort(p)
	x, y := a[rounds/2], p[rounds/2]
	fmt.Printf("%-32s %-6s %10s %10s %6.2fx\n", name, r.runtime, x.Round(time.Millisecond), y.Round(time.Millisecond), float64(x)/float64(y))
}

func timed(f func()) time.Duration {
	t := time.Now()
	f()
	return time.Since(t)
}

func (r *rig) start() {
	r.n++
	class := map[string]string{"runc": "CC1", "runsc": "CC2"}[r.runtime]
	t, err := r.alloc.NewTask(host.TaskSpec{
		Name:          fmt.Sprintf("t%d", r.n),
		Config:        map[string]any{"image": r.image, "command": "sleep", "args": []any{"3600"}, "confinement": class},
		Resources:     host.Resources{CPU: 100, MemoryMB: 64},
		StatsInterval: -1, KillTimeout: 5 * time.Second,
	})
	must(r.b, err)
	must(r.b, t.Start(r.b.Context()))
	r.tasks = append(r.tasks, t)
}

func (r *rig) stop() {
	t := r.tasks[0]
	r.tasks = r.tasks[1:]
	must(r.b, t.Stop(r.b.Context()))
}

func (r *rig) exec() {
	_, err := r.tasks[0].Exec(r.b.Context(), host.ExecRequest{Command: []string{"true"}, Stdout: io.Discard, Stderr: io.Discard})
	must(r.b, err)
}

var bulk = []string{"dd", "if=/dev/zero", "bs=1M", "count=64"}

func (r *rig) stream() {
	_, err := r.tasks[0].Exec(r.b.Context(), host.ExecRequest{Command: bulk, Stdout: io.Discard, Stderr: io.Discard})
	must(r.b, err)
}

// The peer has no network and no sidecar of its own.
func (r *rig) dockerRun() {
	r.plain++
	name := fmt.Sprintf("wardyn-bench-%s-%d", r.runtime, r.plain)
	r.docker("run", "-d", "--runtime", r.runtime, "--name", name, r.image, "sleep", "3600")
	r.names = append(r.names, name)
	r.b.Cleanup(func() { exec.Command("docker", "rm", "-f", name).Run() })
}

func (r *rig) dockerExec()   { r.docker("exec", r.names[len(r.names)-1], "true") }
func (r *rig) dockerStream() { r.docker(append([]string{"exec", r.names[len(r.names)-1]}, bulk...)...) }

func (r *rig) dockerRemove() {
	r.docker("rm", "-f", r.names[0])
	r.names = r.names[1:]
}

func (r *rig) docker(args ...string) {
	ctx, cancel := context.WithTimeout(r.b.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout = io.Discard
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		r.b.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
