package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// writeCPUs says which CPUs a client leaves to all, as the kernel does.
func writeCPUs(t *testing.T, dir, name, cpus string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(cpus+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Bug 53: without cores of its own a task runs on what no other has reserved,
// and on what its author names when that is said.
func TestBug53SharedCPUs(t *testing.T) {
	v1, v2, odd := t.TempDir(), t.TempDir(), t.TempDir()
	writeCPUs(t, v1, "cpuset.effective_cpus", "1-3")
	writeCPUs(t, v2, "cpuset.cpus.effective", "0,2")
	writeCPUs(t, odd, "cpuset.cpus.effective", "")
	for _, c := range []struct {
		group, cores, option string
		want                 string
		shared, told         bool
		refused              bool
	}{
		{group: v1, want: "1-3", shared: true},
		{group: v2, want: "0,2", shared: true},
		{group: v1, cores: "0", want: "0"},
		{group: v1, option: "2", want: "2", shared: true},
		{group: v1, option: "0,2-9", want: "2-3", shared: true, told: true},
		{group: v1, option: "0", refused: true},
		{group: odd, option: "0", want: "0"},
		{group: odd}, {group: filepath.Join(v1, "none")}, {group: "relative"}, {},
	} {
		config := map[string]any{}
		if c.option != "" {
			config["cpuset_cpus"] = c.option
		}
		tc, decoded := taskOf(t, config)
		tc.Resources = &driverpb.Resources{LinuxResources: &driverpb.LinuxResources{CpusetCpus: c.cores, CpusetCgroup: c.group}}
		fx := node
		fx.SharedCPUs = sharedCPUs(tc)
		p, err := planTask(tc, decoded, closedHost, fx)
		if c.refused != (err != nil) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		if told := strings.Contains(strings.Join(p.Notes, "\n"), "cpuset_cpus"); told != c.told {
			t.Errorf("%+v: notes %q", c, p.Notes)
		}
		if got := p.Spec.Sandbox.Task.CpusetCpus; got != c.want || p.SharedCPUs != c.shared {
			t.Errorf("%+v: CPUs %q, shared %v", c, got, p.SharedCPUs)
		}
	}
}

// pinnedRunner notes what a sandbox was pinned to; the first pin fails.
type pinnedRunner struct {
	*runnertest.Fake
	mu   *sync.Mutex
	pins *[]string
}

func (r pinnedRunner) PinCPUs(_ context.Context, ref, cpus string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref == "named" || ref == "setup" {
		cpus = ref + " " + cpus
	}
	*r.pins = append(*r.pins, cpus)
	if len(*r.pins) == 1 {
		return errors.New("planted")
	}
	return nil
}

// Bug 53: when another task reserves a core, those that share lose it while they
// run, also after a restart of the plugin; one that says where it runs stays.
func TestBug53SharedCPUsAreFollowed(t *testing.T) {
	var mu sync.Mutex
	var pins []string
	b := newBench(t, benchOptions{
		wrap: func(r runner.Runner) runner.Runner { return pinnedRunner{r.(*runnertest.Fake), &mu, &pins} },
	})
	group := t.TempDir()
	writeCPUs(t, group, "cpuset.effective_cpus", "0-1")
	tc := b.task("web", args("idle"))
	tc.Resources.CPUSetCgroup = group
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	p := b.plugin()
	kept, _ := p.tasks.get(TaskID(tc.ID))
	backend, err := p.backend()
	if err != nil || !kept.state.SharedCPUs {
		t.Fatalf("shared %v, %v", kept.state.SharedCPUs, err)
	}
	had := func(want string, times int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for _, pin := range pins {
				if pin == want {
					n++
				}
			}
			return n >= times
		}
	}
	go p.keepCPUs(backend, kept, time.Millisecond)
	b.eventually("it is pinned, and again after a failure", had("0-1", 2))
	writeCPUs(t, group, "cpuset.effective_cpus", "1")
	b.eventually("it follows", had("1", 1))

	// Of what it shares an author's task has what the author names, and what it had
	// where that leaves nothing.
	writeCPUs(t, group, "cpuset.effective_cpus", "0-3")
	named := newTask(p.life, backend, kept.config, state{Run: kept.state.Run, Ref: "named", SharedCPUs: true, CPUs: "1,2,9"})
	go p.keepCPUs(backend, named, time.Millisecond)
	b.eventually("it has what is named", had("named 1-2", 1))
	writeCPUs(t, group, "cpuset.effective_cpus", "0,2-3")
	b.eventually("it follows", had("named 2", 1))
	named.stop()
	var setup driver.SetupSpec
	ctx, end := context.WithCancelCause(b.ctx())
	p.watchSetup(backend, kept, &setup, time.Hour, end)
	over := make(chan struct{})
	go func() {
		defer close(over)
		setup.Watch(ctx, "setup")
	}()
	b.eventually("its setup is pinned", had("setup 0,2-3", 1))
	end(nil)
	<-over
	b.destroy(tc.ID)

	fixed := newTask(p.life, backend, kept.config, state{Run: kept.state.Run, Ref: "fixed"})
	p.keepCPUs(backend, fixed, time.Hour) // returns at once
}
