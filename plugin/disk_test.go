package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// fillingRunner reports what a test says for a sandbox's disk use.
type fillingRunner struct {
	*runnertest.Fake
	mib *atomic.Int64
}

func (r fillingRunner) DiskUsage(context.Context, string) (int64, error) {
	if r.mib.Load() < 0 {
		return 0, errors.New("planted")
	}
	return r.mib.Load() << 20, nil
}

func TestDiskOptions(t *testing.T) {
	h := hostOf(t, map[string]any{"max_disk": 1000})
	for _, c := range []struct {
		config any
		host   HostConfig
		want   int64
		words  string
	}{
		{nil, closedHost, 0, ""},
		{nil, h, 1000, ""},
		{map[string]any{"size": "500m"}, h, 500, ""},
		{[]any{map[string]any{"size": "2g"}}, closedHost, 2048, ""},
		{map[string]any{"size": "2g"}, h, 0, "max_disk"},
		{map[string]any{"size": "x"}, h, 0, "no size"},
		{map[string]any{"dm.basesize": "1g"}, h, 0, "operator's"},
		{"10g", h, 0, "storage_opt"},
	} {
		p, err := planOf(t, map[string]any{"storage_opt": c.config}, c.host)
		if c.words != "" {
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v: %v", c.config, err)
			}
		} else if err != nil || p.Spec.Sandbox.Resources.DiskMiB != c.want {
			t.Errorf("%v: %d, %v", c.config, p.Spec.Sandbox.Resources.DiskMiB, err)
		}
	}
	for _, block := range []map[string]any{{"max_disk": -1}, {"disk_enforce": "maybe"}} {
		if _, err := hostConfig(operator(t, block)); err == nil {
			t.Errorf("%v is taken", block)
		}
	}
}

// K37: over its limit a task is an event, once; over a fifth more it is ended,
// and its exit says why. What cannot be measured ends nothing.
func TestK37DiskLimit(t *testing.T) {
	used := &atomic.Int64{}
	b := newBench(t, benchOptions{
		config: map[string]any{"max_disk": 100},
		wrap:   func(r runner.Runner) runner.Runner { return fillingRunner{r.(*runnertest.Fake), used} },
	})
	tc, _ := b.start("web", args("idle"))
	if err := os.WriteFile(filepath.Join(tc.AllocDir, "web", "local", "big"), make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.plugin()
	kept, ok := p.tasks.get(TaskID(tc.ID))
	if !ok {
		t.Fatal("no task")
	}
	backend, err := p.backend()
	if err != nil {
		t.Fatal(err)
	}
	over := func() bool {
		return strings.Contains(strings.Join(b.said(tc.ID), "\n"), "has 110 MiB on disk, and its limit is 100 MiB; it is ended above 120 MiB")
	}
	used.Store(-1)
	go p.keepDisk(backend, kept, time.Millisecond)
	used.Store(105)
	b.eventually("an event", over)
	used.Store(116)
	r := b.wait(tc.ID)
	if r.ExitCode != 137 || !strings.Contains(r.Err, "121 MiB on disk") || !strings.Contains(r.Err, "storage_opt.size") {
		t.Errorf("exit %+v", r)
	}
	n := 0
	for _, s := range b.said(tc.ID) {
		if strings.Contains(s, "its limit is") && !strings.HasPrefix(s, "Sandbox stopped") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d events of being over: %q", n, b.said(tc.ID))
	}
	b.destroy(tc.ID)
}
