package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// egressPools are this package's own, one for each kind of rig.
var egressPools = []string{"10.214.228.0/22", "10.214.232.0/22"}

// rig is a plugin. What start has started, stop ends.
type rig struct {
	b       *testing.B
	bin     string
	config  string // file with the plugin's options
	runtime string
	image   string
	warm    int // slots kept warm
	plugin  *host.Plugin
	alloc   *host.Alloc
	tasks   []*host.Task
	n       int // tasks made
}

func newRig(b *testing.B, runtime, image string, warm int) *rig {
	b.Helper()
	dir := b.TempDir()
	r := &rig{b: b, runtime: runtime, image: image, warm: warm,
		bin: filepath.Join(testenv.Root(b), "bin", "nomad-driver-wardyn"), config: filepath.Join(dir, "plugin.hcl")}
	data, egress := filepath.Join(dir, "data"), egressPools[warm]
	endpoint := testenv.Engine(b)
	config := map[string]any{"data_dir": data, "endpoint": endpoint, "egress_subnet_pool": egress, "pool": map[string]any{"size": warm}}
	text := fmt.Sprintf("data_dir = %q\nendpoint = %q\negress_subnet_pool = %q\n", data, endpoint, egress)
	must(b, os.WriteFile(r.config, []byte(text), 0o600))
	b.Cleanup(func() {
		if out, err := exec.Command(r.bin, "purge", "-plugin-config", r.config, "-kept", "-yes").CombinedOutput(); err != nil {
			b.Errorf("purge: %v\n%s", err, out)
		}
	})
	var err error
	r.plugin, err = host.Launch(b.Context(), host.Options{Path: r.bin, PluginConfig: config})
	must(b, err)
	b.Cleanup(r.plugin.Close)
	for {
		f, err := r.plugin.Fingerprint(b.Context())
		must(b, err)
		if f.Health == host.Healthy {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	r.alloc, err = r.plugin.NewAlloc(b.Context(), host.AllocSpec{Root: filepath.Join(dir, "alloc"), ID: uuid.NewString(),
		JobID: "bench", JobName: "bench", Namespace: "default", Group: "g"})
	must(b, err)
	b.Cleanup(func() { r.alloc.Remove() })
	return r
}

func (r *rig) start() time.Duration {
	r.awaitWarm()
	r.n++
	t, err := r.alloc.NewTask(host.TaskSpec{
		Name:          fmt.Sprintf("t%d", r.n),
		Config:        map[string]any{"image": r.image, "command": "sleep", "args": []any{"3600"}, "confinement": r.class()},
		Resources:     host.Resources{CPU: 100, MemoryMB: 64},
		StatsInterval: -1, KillTimeout: 5 * time.Second,
	})
	must(r.b, err)
	took := timed(func() { must(r.b, t.Start(r.b.Context())) })
	r.tasks = append(r.tasks, t)
	r.awaitWarm() // nor is what comes next to be measured while it is refilled
	return took
}

func (r *rig) class() string {
	return map[string]string{"runc": "CC1", "runsc": "CC2"}[r.runtime]
}

// awaitWarm waits until the pool is full.
func (r *rig) awaitWarm() {
	for r.warm > 0 {
		out, err := exec.Command(r.bin, "ps", "-json", "-plugin-config", r.config).Output()
		must(r.b, err)
		var list struct{ Warm int }
		must(r.b, json.Unmarshal(out, &list))
		if list.Warm == r.warm {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// stop ends a task as its agent does, from the signal to the last of it gone.
func (r *rig) stop() time.Duration {
	t := r.tasks[0]
	r.tasks = r.tasks[1:]
	return timed(func() { must(r.b, t.Stop(r.b.Context())) })
}

func (r *rig) exec() time.Duration { return r.command("true") }

func (r *rig) stream() time.Duration { return r.command(bulk...) }

func (r *rig) command(argv ...string) time.Duration {
	return timed(func() {
		_, err := r.tasks[0].Exec(r.b.Context(), host.ExecRequest{Command: argv, Stdout: io.Discard, Stderr: io.Discard})
		must(r.b, err)
	})
}
