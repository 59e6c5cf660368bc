package plugin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclconf"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

func (b *bench) lastPrint() (host.Fingerprint, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.prints) == 0 {
		return host.Fingerprint{}, false
	}
	return b.prints[len(b.prints)-1], true
}

func TestFingerprint(t *testing.T) {
	b := newBench(t, benchOptions{slots: 5})
	var f host.Fingerprint
	b.eventually("the first message", func() bool { var ok bool; f, ok = b.lastPrint(); return ok })
	if f.Health != host.Healthy || f.Description != "Healthy" {
		t.Errorf("%v %q", f.Health, f.Description)
	}
	for k, v := range map[string]string{
		"version": "1.2.3", "engine": "fake", "engine.version": "0", "classes": "CC1,CC2", "class.CC1": "fake/CC1",
		"class.CC2": "fake/CC2", "slots": "5", "capacity": "ok",
	} {
		if got, ok := f.Attributes["driver.wardyn."+k]; !ok || got != v {
			t.Errorf("%s is %q (%v), want %q", k, got, ok, v)
		}
	}
	// An attribute that is there without a value would satisfy is_set.
	for _, k := range []string{"class.CC3", "structural_egress"} {
		if v, ok := b.host.NodeAttributes()["driver.wardyn."+k]; ok {
			t.Errorf("the node has the attribute %s = %q", k, v)
		}
	}
}

// TestTrap19And20Fingerprint: changes are told, sameness is not, and what no
// longer holds is told as empty.
func TestTrap19And20Fingerprint(t *testing.T) {
	var mode atomic.Int32
	findings := func() runner.Findings {
		switch mode.Load() {
		case 1:
			return runner.Findings{Reason: "docker does not answer; start it", Classes: []runner.ClassFinding{{Class: "CC1"}, {Class: "CC2"}}}
		}
		return runner.Findings{
			Healthy: true, EngineVersion: "20", Capabilities: runner.Capabilities{Driver: "docker", StructuralEgress: true},
			Classes: []runner.ClassFinding{{Class: "CC1", Runtime: "oci/runc", Works: true}},
		}
	}
	b := newBench(t, benchOptions{fake: runnertest.Options{Findings: findings}})
	again := func() {
		next := func() <-chan struct{} { _, c := b.plugin().health.current(); return c }()
		select {
		case b.plugin().health.again <- struct{}{}:
		default:
		}
		select {
		case <-next:
		case <-b.ctx().Done():
			t.Fatal("not examined again")
		}
	}
	b.eventually("healthy", func() bool { f, ok := b.lastPrint(); return ok && f.Health == host.Healthy })
	updates := b.host.NodeUpdates()
	for range 3 {
		again()
	}
	if n := b.host.NodeUpdates(); n != updates {
		t.Errorf("%d node updates while nothing changed", n-updates)
	}
	mode.Store(1)
	again()
	b.eventually("unhealthy", func() bool { f, _ := b.lastPrint(); return f.Health == host.Unhealthy })
	f, _ := b.lastPrint()
	if !strings.Contains(f.Description, "start it") || f.Attributes["driver.wardyn.classes"] != "" {
		t.Errorf("%+v", f)
	}
	if v, ok := f.Attributes["driver.wardyn.class.CC1"]; !ok || v != "" {
		t.Errorf("a class that is lost: %q, %v", v, ok)
	}
	if attrs := b.host.NodeAttributes(); attrs["driver.wardyn.structural_egress"] != "" || attrs["driver.wardyn.class.CC1"] != "" {
		t.Errorf("the node still has %v", attrs)
	}
	// Nothing starts meanwhile, and it may be tried again.
	_, _, err := b.host.StartTask(b.ctx(), b.task("web", args("true")))
	if err == nil || !host.IsRecoverable(err) || !strings.Contains(err.Error(), "start it") {
		t.Errorf("start: %v", err)
	}
	mode.Store(0)
	again()
	b.start("web", args("true"))
}

// TestPendingProbes: a class that is still being probed is neither there nor
// missing, and no weaker one is taken in its stead.
func TestPendingProbes(t *testing.T) {
	var step atomic.Int32
	findings := func() runner.Findings {
		f := runner.Findings{Pending: true, Reason: "probing", Classes: []runner.ClassFinding{{Class: "CC1"}, {Class: "CC2"}}}
		n := step.Load()
		if n >= 1 {
			f.Healthy, f.Classes[0].Works = true, true
		}
		if n >= 2 {
			f.Pending, f.Classes[1].Works = false, true
		}
		return f
	}
	b := newBench(t, benchOptions{fake: runnertest.Options{Findings: findings}})
	b.plugin().health.start(b.plugin().life)
	step.Store(1)
	c := args("true")
	c["confinement"] = "CC1"
	tc, _ := b.start("web", c) // the class it names works: that is enough
	b.destroy(tc.ID)
	tc = b.task("web", args("idle"))
	started := make(chan error, 1)
	go func() {
		_, _, err := b.host.StartTask(b.ctx(), tc)
		started <- err
	}()
	calls := len(b.fake.Calls())
	b.eventually("it is examined again", func() bool { return len(b.fake.Calls()) > calls })
	select {
	case err := <-started:
		t.Fatalf("started while CC2 was unknown: %v", err)
	default:
	}
	step.Store(2)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if st, err := b.host.InspectTask(b.ctx(), tc.ID); err != nil || st.Attributes["class"] != "CC2" {
		t.Errorf("%+v, %v", st, err)
	}
	b.destroy(tc.ID)
}

// TestBackendThatCannotBeMade: the node is unhealthy with the reason, the agent
// starts all the same, and it is tried again.
func TestBackendThatCannotBeMade(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.eventually("healthy", func() bool { f, ok := b.lastPrint(); return ok && f.Health == host.Healthy })
	if n := func() int { b.mu.Lock(); defer b.mu.Unlock(); return b.builds }(); n != 1 {
		t.Errorf("built %d times", n)
	}
	b.mu.Lock()
	b.buildErr = errors.New("data_dir: is a link")
	b.mu.Unlock()
	b.crash()
	b.eventually("unhealthy", func() bool {
		f, _ := b.lastPrint()
		return f.Health == host.Unhealthy && strings.Contains(f.Description, "is a link")
	})
	tc := b.task("web", args("idle"))
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil || !host.IsRecoverable(err) {
		t.Errorf("start: %v", err)
	}
	b.mu.Lock()
	b.buildErr = nil
	b.mu.Unlock()
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Errorf("start after the repair: %v", err)
	}
	b.destroy(tc.ID)
}

// TestTrap21SetConfigDoesNothing: it runs beside a living older instance.
func TestTrap21SetConfigDoesNothing(t *testing.T) {
	p := New(Options{Version: "1.0.0", Build: func(context.Context, HostConfig, *slog.Logger) (*Backend, error) {
		t.Error("something was built")
		return nil, errors.New("no")
	}}, hclog.NewNullLogger())
	defer p.Close()
	ctx := t.Context()
	for range 3 {
		if _, err := p.SetConfig(ctx, &basepb.SetConfigRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.SetConfig(ctx, &basepb.SetConfigRequest{MsgpackConfig: []byte("\xc1")}); err == nil {
		t.Error("no msgpack was taken")
	}
	for _, call := range []func() error{
		func() error { _, err := p.PluginInfo(ctx, nil); return err },
		func() error { _, err := p.ConfigSchema(ctx, nil); return err },
		func() error { _, err := p.TaskConfigSchema(ctx, nil); return err },
		func() error { _, err := p.Capabilities(ctx, nil); return err },
		func() error { _, err := p.Init(ctx, &driverpb.InitRequest{}); return err },
		func() error { _, err := p.Init(ctx, &driverpb.InitRequest{}); return err },
		func() error { _, err := p.Shutdown(ctx, &driverpb.ShutdownRequest{}); return err },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
}

// TestOptionsStayOnceTheyAreInUse: a second SetConfig changes nothing that runs.
func TestOptionsStayOnceTheyAreInUse(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.start("web", args("idle"))
	data, err := hclconf.Msgpack(configSpec(), map[string]any{"expose_tokens": true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.plugin().SetConfig(t.Context(), &basepb.SetConfigRequest{MsgpackConfig: data}); err != nil {
		t.Fatal(err)
	}
	if h, _ := b.plugin().options(); h.ExposeTokens {
		t.Error("options changed under running tasks")
	}
}

func TestBadOptionsStopTheAgent(t *testing.T) {
	_, err := host.InMemory(t.Context(), newServerFor(t), host.Options{
		PluginConfig: map[string]any{"endpoint": "tcp://x", "slots": -1}, Node: host.LocalNode(),
	})
	if err == nil || !strings.Contains(err.Error(), "2 reasons") || !strings.Contains(err.Error(), "endpoint") || !strings.Contains(err.Error(), "slots") {
		t.Errorf("got %v", err)
	}
}

func TestK40Capacity(t *testing.T) {
	for _, c := range []struct {
		used, total int
		was, want   string
	}{
		{0, 10, "", "ok"}, {7, 10, "ok", "ok"}, {8, 10, "ok", "low"}, {9, 10, "low", "low"},
		{10, 10, "low", "full"}, {11, 10, "low", "full"},
		// Back only when clearly past the edge.
		{96, 100, "full", "full"}, {94, 100, "full", "low"}, {7, 10, "low", "low"}, {69, 100, "low", "ok"},
		{0, 0, "", "full"},
	} {
		if got := capacityWord(c.used, c.total, c.was); got != c.want {
			t.Errorf("%d of %d after %q: %s, want %s", c.used, c.total, c.was, got, c.want)
		}
	}
}

func TestProbeWithoutProber(t *testing.T) {
	f := probe(t.Context(), struct{ runner.Runner }{runnertest.New(runnertest.Options{})})
	if !f.Healthy || len(f.Classes) != 2 || f.Classes[0].Class != string(types.CC1) || !f.Classes[0].Works {
		t.Errorf("%+v", f)
	}
	fake := runnertest.New(runnertest.Options{})
	fake.SetFault(func(context.Context, string, string) error { return runner.ErrUnavailable })
	if f := probe(t.Context(), struct{ runner.Runner }{fake}); f.Healthy || f.Reason == "" {
		t.Errorf("%+v", f)
	}
}

func TestTopology(t *testing.T) {
	core := func(base, most, guess uint64) *basepb.ClientTopologyCore {
		return &basepb.ClientTopologyCore{BaseSpeed: base, MaxSpeed: most, GuessSpeed: guess}
	}
	c := topologyCompute(&basepb.ClientTopology{Cores: []*basepb.ClientTopologyCore{core(2000, 3000, 1), core(0, 3000, 1), core(0, 0, 1000)}})
	if c.Cores != 3 || c.MHz != 6000 || c.ticks(150) != 3000 {
		t.Errorf("%+v, %v", c, c.ticks(150))
	}
	if c := topologyCompute(&basepb.ClientTopology{Cores: []*basepb.ClientTopologyCore{core(1, 1, 1)}, OverrideTotalCompute: 9}); c.MHz != 9 {
		t.Errorf("override: %+v", c)
	}
	if (compute{}).ticks(100) != 0 {
		t.Error("ticks of no cores")
	}
	if l := localCompute(); l.Cores < 1 {
		t.Errorf("local: %+v", l)
	}
}

func newServerFor(t *testing.T) func(hclog.Logger) wire.Server {
	return func(log hclog.Logger) wire.Server {
		return New(Options{Version: "1.0.0", Build: func(context.Context, HostConfig, *slog.Logger) (*Backend, error) {
			t.Error("something was built")
			return nil, errors.New("no")
		}}, log)
	}
}
