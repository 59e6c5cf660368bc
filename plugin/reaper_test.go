package plugin

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// sweeping is a runner that can be swept: whatever it lists has traces.
type sweeping struct {
	*runnertest.Fake
	tasks     []host.TaskConfig
	strangers []string
}

func (s *sweeping) Traces(ctx context.Context) (runner.Traces, error) {
	out := runner.Traces{Strangers: s.strangers}
	listed, err := s.ListSandboxes(ctx)
	for _, l := range listed {
		for _, tc := range s.tasks {
			if l.Ref == refOf(tc) {
				out.Runs = append(out.Runs, runner.Trace{Run: RunID(TaskID(tc.ID)), Ref: l.Ref, Parts: []string{"container"}})
			}
		}
	}
	return out, err
}

// reaped is a bench with a task that is looked after and one that the client
// never came back for.
func reaped(t *testing.T) (b *bench, s *sweeping, known, lost host.TaskConfig) {
	b = newBench(t, benchOptions{
		config: map[string]any{"reaper": []any{map[string]any{"enabled": false}}},
		wrap: func(r runner.Runner) runner.Runner {
			s = &sweeping{Fake: r.(*runnertest.Fake)}
			return s
		},
	})
	known, _ = b.start("known", args("idle"))
	lost, _ = b.start("lost", args("idle"))
	s.tasks = []host.TaskConfig{known, lost}
	task, _ := b.plugin().tasks.get(TaskID(lost.ID))
	b.plugin().tasks.delete(task.id)
	task.stop()
	return b, s, known, lost
}

func (b *bench) refs() string {
	b.t.Helper()
	listed, err := b.fake.ListSandboxes(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, l := range listed {
		out = append(out, l.Ref)
	}
	return strings.Join(out, " ")
}

// K3: what no task accounts for goes after the grace time, not before; what a
// task accounts for stays for ever.
func TestK3ReaperWaitsAndSpares(t *testing.T) {
	b, s, known, lost := reaped(t)
	s.strangers = []string{"container somebody"}
	plan := reaperPlan{Grace: 5 * time.Minute}
	r, start := b.plugin().reaper, time.Now()
	sweep := func(after time.Duration) string {
		if err := r.sweep(t.Context(), plan, start.Add(after)); err != nil {
			t.Fatal(err)
		}
		return b.refs()
	}
	for _, after := range []time.Duration{0, 5*time.Minute - 1} {
		if got := sweep(after); !strings.Contains(got, refOf(lost)) {
			t.Fatalf("removed after %v: left %q", after, got)
		}
	}
	if got := sweep(5 * time.Minute); strings.Contains(got, refOf(lost)) || !strings.Contains(got, refOf(known)) {
		t.Errorf("after the grace time there is %q, want %s alone", got, refOf(known))
	}
	if got := sweep(time.Hour); !strings.Contains(got, refOf(known)) {
		t.Errorf("a task's sandbox was removed: %q", got)
	}
	if n := r.leftovers(); n != 1 { // the stranger
		t.Errorf("%d leftovers, want 1", n)
	}
	f := b.plugin().withLeftovers(fingerprint("1", &finding{}))
	if got := f.Attributes["driver.wardyn.leftovers"].GetIntVal(); got != 1 {
		t.Errorf("the fingerprint says %d", got)
	}
}

// A dry run removes nothing and counts what it would.
func TestK3ReaperDryRun(t *testing.T) {
	b, _, _, lost := reaped(t)
	r, start := b.plugin().reaper, time.Now()
	plan := reaperPlan{Grace: time.Minute, DryRun: true}
	for _, after := range []time.Duration{0, time.Hour, 2 * time.Hour} {
		if err := r.sweep(t.Context(), plan, start.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(b.refs(), refOf(lost)) || r.leftovers() != 1 {
		t.Errorf("left %q, counted %d; want it there and counted", b.refs(), r.leftovers())
	}
}

// What was recovered before its time was up begins anew when it is lost again.
func TestK3ReaperForgetsWhatCameBack(t *testing.T) {
	b, _, _, lost := reaped(t)
	r, start := b.plugin().reaper, time.Now()
	plan := reaperPlan{Grace: time.Minute}
	id := TaskID(lost.ID)
	for _, step := range []struct {
		after time.Duration
		back  bool
	}{{0, false}, {30 * time.Second, true}, {90 * time.Second, false}, {149 * time.Second, false}} {
		var release = func() {}
		if step.back {
			_, release, _ = b.plugin().tasks.begin(id, func() {})
		}
		err := r.sweep(t.Context(), plan, start.Add(step.after))
		release()
		if err != nil || !strings.Contains(b.refs(), refOf(lost)) {
			t.Fatalf("after %v: %v, left %q", step.after, err, b.refs())
		}
	}
	if err := r.sweep(t.Context(), plan, start.Add(150*time.Second)); err != nil || strings.Contains(b.refs(), refOf(lost)) {
		t.Errorf("%v, left %q", err, b.refs())
	}
}

// K3: a setup has a run of its own and may take longer than the grace time.
func TestK3ReaperSparesSetups(t *testing.T) {
	s := newStore()
	s.put(&task{id: "known", state: state{Run: RunID("known")}})
	_, release, err := s.begin("starting", func() {})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[TaskID]bool{"known": true, "starting": true, "lost": false} {
		if got := s.accounts(setupRun(RunID(id))); got != want {
			t.Errorf("the setup of task %q is accounted for: %v, want %v", id, got, want)
		}
	}
	release()
	if s.accounts(setupRun(RunID("starting"))) {
		t.Error("the setup of a start that is over is accounted for")
	}
}

func TestReaperOptions(t *testing.T) {
	off := false
	h, err := hostConfig(Config{Reaper: &ReaperConfig{Enabled: &off, DryRun: true, Grace: "90s", Period: "30s"}})
	if want := (reaperPlan{Off: true, DryRun: true, Grace: 90 * time.Second, Period: 30 * time.Second}); err != nil || h.Reaper != want {
		t.Errorf("%+v, %v; want %+v", h.Reaper, err, want)
	}
	if h, err = hostConfig(Config{}); err != nil || h.Reaper != (reaperPlan{}) {
		t.Errorf("by default %+v, %v", h.Reaper, err)
	}
	if grace, period := h.Reaper.times(); grace != 5*time.Minute || period != 5*time.Minute {
		t.Errorf("by default %v and %v", grace, period)
	}
	for _, bad := range []string{"4s", "soon", "-5m"} {
		if _, err := hostConfig(Config{Reaper: &ReaperConfig{Grace: bad}}); err == nil || !strings.Contains(err.Error(), "reaper.grace") {
			t.Errorf("grace %q: %v", bad, err)
		}
	}
}
