package plugin

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// probeEvery is how often the node is examined.
	probeEvery = 30 * time.Second
	// pendingEvery is how often while a class is still being probed.
	pendingEvery = time.Second
	// probeTimeout bounds one examination: a wedged runtime must not end all.
	probeTimeout = 3 * time.Minute
	// firstWait is how long the first answer to a client waits for the first
	// examination. An agent holds its node back until then, and for longer than
	// this it would rather hear that we do not know yet.
	firstWait = 5 * time.Second
	// readyWait is how long a start waits for a finding with which it can be
	// made. On a slow node a class's probe takes most of a minute.
	readyWait = 90 * time.Second
)

// finding is what one examination of the node came to.
type finding struct {
	runner.Findings
	Total    int    // slots; 0 when unknown
	Capacity string // ok, low or full; "" when unknown
}

// health examines the node again and again, and remembers what came of it.
type health struct {
	examine func(ctx context.Context, before *finding) finding

	once  sync.Once
	again chan struct{} // asks for an examination now

	mu   sync.Mutex
	last *finding      // nil before the first; another pointer means another finding
	next chan struct{} // closed and replaced at the end of every examination
}

func newHealth(examine func(context.Context, *finding) finding) *health {
	return &health{examine: examine, again: make(chan struct{}, 1), next: make(chan struct{})}
}

// start examines from now on until life ends.
func (h *health) start(life context.Context) {
	h.once.Do(func() {
		go func() {
			tick := time.NewTicker(probeEvery)
			defer tick.Stop()
			for {
				soon := make(<-chan time.Time)
				if h.probe(life) {
					soon = time.After(pendingEvery)
				}
				select {
				case <-tick.C:
				case <-soon:
				case <-h.again:
				case <-life.Done():
					return
				}
			}
		}()
	})
}

// probe examines the node once. It reports whether parts of it are still being
// probed. While that leaves nothing that works, there is no finding yet.
func (h *health) probe(life context.Context) (pending bool) {
	ctx, cancel := context.WithTimeout(life, probeTimeout)
	defer cancel()
	before, _ := h.current()
	f := h.examine(ctx, before)
	if life.Err() != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	unknown := f.Pending && !f.Healthy
	if !unknown && (h.last == nil || !reflect.DeepEqual(*h.last, f)) {
		h.last = &f
	}
	close(h.next)
	h.next = make(chan struct{})
	return f.Pending
}

// current is the last finding, nil before the first, and a channel that is
// closed when the node has been examined again.
func (h *health) current() (*finding, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last, h.next
}

// ready is a finding with which a task can be started: the last, or a newer one
// where that one is bad or does not tell enough yet. A node that is unhealthy,
// or still being examined, is a passing trouble.
func (h *health) ready(ctx context.Context, enough func(finding) bool) (finding, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	f, next := h.current()
	good := func() bool { return f != nil && f.Healthy && enough(*f) }
	if !good() {
		select {
		case h.again <- struct{}{}:
		default:
		}
	}
	for wait := true; wait && !good(); {
		select {
		case <-next:
			f, next = h.current()
			wait = f == nil || f.Pending
		case <-ctx.Done():
			wait = false
		}
	}
	switch {
	case f == nil:
		return finding{}, fmt.Errorf("this node is still being examined: %w", runner.ErrUnavailable)
	case !f.Healthy:
		return finding{}, fmt.Errorf("%s: %w", f.Reason, runner.ErrUnavailable)
	case !enough(*f):
		return finding{}, fmt.Errorf("the classes of this node are still being probed: %w", runner.ErrUnavailable)
	}
	return *f, nil
}

// examine asks the runner and counts slots. A backend that cannot be made, or
// an engine that cannot be asked, is a finding too.
func (p *Plugin) examine(ctx context.Context, before *finding) finding {
	if before != nil && p.unattended() {
		return *before // nobody asks
	}
	b, err := p.backend()
	if err != nil {
		return finding{Findings: runner.Findings{Reason: err.Error()}}
	}
	f := finding{Findings: probe(ctx, b.Runner)}
	used, total, err := b.Driver.Capacity(ctx)
	f.Total = total
	was := ""
	if before != nil {
		was = before.Capacity
	}
	f.Capacity = was
	if err == nil {
		f.Capacity = capacityWord(used, total, was)
	}
	return f
}

// probe is what the runner finds out about the node.
func probe(ctx context.Context, r runner.Runner) runner.Findings {
	if prober, ok := r.(runner.Prober); ok {
		return prober.Probe(ctx)
	}
	c, err := r.Capabilities(ctx)
	if err != nil {
		return runner.Findings{Reason: err.Error()}
	}
	f := runner.Findings{Healthy: len(c.ConfinementClasses) > 0, Capabilities: c}
	for _, class := range c.ConfinementClasses {
		f.Classes = append(f.Classes, runner.ClassFinding{Class: string(class), Runtime: c.Resolved[class], Works: true})
	}
	return f
}

// CapacityWord says how full a node is that has used slots of total; the
// fingerprint's word may lag behind it, so as not to change with every task.
func CapacityWord(used, total int) string { return capacityWord(used, total, "") }

// capacityWord says how full the node is, in words that do not change with
// every task: each is left only when the figure is clearly past its edge.
func capacityWord(used, total int, was string) string {
	const lowAt, okBelow, lowBelow = 80, 70, 95 // per cent
	if total <= 0 {
		return "full"
	}
	switch share := used * 100 / total; {
	case used >= total, was == "full" && share >= lowBelow:
		return "full"
	case share >= lowAt, was != "" && was != "ok" && share >= okBelow:
		return "low"
	}
	return "ok"
}
