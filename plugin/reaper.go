package plugin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// sweepTimeout bounds one look for leftovers.
const sweepTimeout = time.Minute

// reaper removes what no task accounts for: of tasks whose client forgot them
// while the driver was away, of starts that a crash cut short, of the time
// before a reboot. It removes only what is proven to be this installation's,
// and only when it was without a task for the whole grace time, which begins
// at the first fingerprint: by then the client has recovered its tasks.
type reaper struct {
	p    *Plugin
	once sync.Once

	mu    sync.Mutex
	since map[uuid.UUID]time.Time // when a run was first seen without a task
	told  map[string]bool         // strangers and dry runs that were logged
	left  int                     // what is there and stays
}

func newReaper(p *Plugin) *reaper {
	return &reaper{p: p, since: map[uuid.UUID]time.Time{}, told: map[string]bool{}}
}

// start sweeps from now on until life ends.
func (r *reaper) start(life context.Context) {
	host, _ := r.p.options()
	if host.Reaper.Off {
		return
	}
	r.once.Do(func() { go r.run(life, host.Reaper) })
}

func (r *reaper) run(life context.Context, plan reaperPlan) {
	grace, period := plan.times()
	// The first look only starts the grace of what it finds.
	for pause := time.Duration(0); ; {
		select {
		case <-time.After(pause):
		case <-life.Done():
			return
		}
		if err := r.sweep(life, plan, time.Now()); err != nil {
			r.p.log.Warn("leftovers could not be looked for; trying again", "error", err)
		}
		r.trim(life, plan)
		pause = min(period, grace)
	}
}

// sweep looks once, at the time now, and removes what is due.
func (r *reaper) sweep(ctx context.Context, plan reaperPlan, now time.Time) error {
	if r.p.unattended() {
		return nil // what is there may be another plugin's by now
	}
	b, err := r.p.backend()
	if err != nil {
		return err
	}
	s, ok := b.Runner.(runner.Sweeper)
	if !ok {
		return nil
	}
	look, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	found, err := s.Traces(look)
	if err != nil {
		return err
	}
	left := r.tell(found.Strangers, "an object carries this installation's label without being its own; it stays")
	grace, _ := plan.times()
	for _, t := range r.due(found.Runs, grace, now) {
		if !r.remove(ctx, b, t, plan.DryRun) {
			left++
		}
	}
	r.mu.Lock()
	r.left = left
	r.mu.Unlock()
	return nil
}

// trim removes images of setups beyond what the operator keeps: they grow old
// also where no setup is run any more.
func (r *reaper) trim(ctx context.Context, plan reaperPlan) {
	b, err := r.p.backend()
	if err != nil || plan.DryRun || r.p.unattended() {
		return // the sweep has told why
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	r.p.trimSetups(ctx, b)
}

// due are the runs that were without a task for the whole grace time.
func (r *reaper) due(found []runner.Trace, grace time.Duration, now time.Time) []runner.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[uuid.UUID]time.Time{}
	var out []runner.Trace
	for _, t := range found {
		if r.p.tasks.accounts(t.Run) {
			continue
		}
		first, ok := r.since[t.Run]
		if !ok {
			first = now
		}
		seen[t.Run] = first
		if now.Sub(first) >= grace {
			out = append(out, t)
		}
	}
	r.since = seen
	return out
}

// remove takes one leftover away; false when it is still there.
func (r *reaper) remove(ctx context.Context, b *Backend, t runner.Trace, dry bool) bool {
	parts := strings.Join(t.Parts, ", ")
	if dry {
		r.tell([]string{t.Ref + " (" + parts + ")"}, "no task accounts for it; it would be removed (reaper.dry_run)")
		return false
	}
	if r.p.tasks.accounts(t.Run) {
		return true // recovered meanwhile
	}
	if err := removeRun(ctx, b, t.Run); err != nil {
		r.p.log.Error("a leftover could not be removed; trying again", "ref", t.Ref, "parts", parts, "error", err)
		return false
	}
	r.p.log.Warn("removed what no task accounts for", "ref", t.Ref, "parts", parts)
	return true
}

// tell logs each thing once and counts them all.
func (r *reaper) tell(what []string, text string) int {
	for _, w := range what {
		r.mu.Lock()
		told := r.told[w]
		r.told[w] = true
		r.mu.Unlock()
		if !told {
			r.p.log.Warn(text, "what", w)
		}
	}
	return len(what)
}

// leftovers counts what no task accounts for and what stays all the same.
func (r *reaper) leftovers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// withLeftovers adds the reaper's figure to a fingerprint that has attributes.
func (p *Plugin) withLeftovers(f *driverpb.FingerprintResponse) *driverpb.FingerprintResponse {
	if f.Attributes != nil {
		f.Attributes[fmt.Sprintf("driver.%s.leftovers", Name)] = &structspb.Attribute{
			Value: &structspb.Attribute_IntVal{IntVal: int64(p.reaper.leftovers())},
		}
	}
	return f
}
