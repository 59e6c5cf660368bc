package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// goodLife and badLife are how long a verdict stands: what works seldom
	// stops working, and what does not may be repaired at any time.
	goodLife = 10 * time.Minute
	badLife  = time.Minute
	// clearPause paces attempts to remove what a hanging probe left.
	clearPause = 30 * time.Second
)

// verdict is the outcome of probing one runtime.
type verdict struct {
	err error // nil: it works
	// left: the probe's own objects could not be removed yet.
	left bool
}

// findingsCache keeps one verdict a subject and sees to it that none is
// probed twice at a time.
type findingsCache struct {
	life  context.Context // ends with stop
	end   context.CancelFunc
	tasks sync.WaitGroup // probes under way

	mu    sync.Mutex // guards the rest
	known map[subject]*finding
	epoch int // counts the times the engine was away
	seen  *runner.Findings
}

func newFindings() *findingsCache {
	c := &findingsCache{known: make(map[subject]*finding)}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// stop ends the probes under way and waits until they have cleaned up.
func (c *findingsCache) stop() {
	c.mu.Lock()
	c.end() // under the lock, so that no probe starts after it
	c.mu.Unlock()
	c.tasks.Wait()
}

// finding is what is known of one subject.
type finding struct {
	busy  chan struct{} // not nil while a probe runs; closed when its verdict is in
	began time.Time
	key   string // the engine the verdict is about
	at    time.Time
	verdict
	known bool
	// clearing: objects of the last probe are still being removed; no other
	// probe of it starts meanwhile.
	clearing bool
}

func (c *findingsCache) keepLast(f runner.Findings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = &f
}

func (c *findingsCache) last() (runner.Findings, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		return runner.Findings{}, false
	}
	return *c.seen, true
}

// engineGone makes every verdict out of date: the engine that comes back may
// be another.
func (c *findingsCache) engineGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
}

// has says whether there is a verdict on the subject that still stands.
func (c *findingsCache) has(s subject, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.known[s]
	return f != nil && f.stands(key)
}

// adopt takes over that a subject works, as another process found at that time,
// unless this one is finding out itself.
func (c *findingsCache) adopt(s subject, key string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.known[s]; f == nil || f.busy == nil && !f.clearing {
		c.known[s] = &finding{known: true, key: key, at: at}
	}
}

// generation is the current epoch, to be made part of a key.
func (c *findingsCache) generation() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// refresh starts a probe in the background when there is no verdict that still
// stands. clear removes what a probe left behind.
func (c *findingsCache) refresh(s subject, key string, probe func(context.Context) verdict, clear func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.known[s]
	if f == nil {
		f = &finding{}
		c.known[s] = f
	}
	if f.busy != nil || f.clearing || f.stands(key) || c.life.Err() != nil {
		return
	}
	f.busy, f.began = make(chan struct{}), time.Now()
	c.tasks.Go(func() {
		v := probe(c.life)
		c.mu.Lock()
		f.verdict, f.known, f.key, f.at, f.clearing = v, true, key, time.Now(), v.left
		close(f.busy)
		f.busy = nil
		c.mu.Unlock()
		if v.left {
			c.clear(f, clear)
		}
	})
}

func (f *finding) stands(key string) bool {
	life := goodLife
	if f.err != nil {
		life = badLife
	}
	return f.about(key) && time.Since(f.at) < life
}

// about reports whether there is a verdict on that engine. A probe that was
// disturbed gave none.
func (f *finding) about(key string) bool {
	return f.known && f.key == key && !errors.Is(f.err, errDisturbed)
}

// clear goes on until the remains of a probe are gone.
func (c *findingsCache) clear(f *finding, remove func() error) {
	for remove() != nil {
		select {
		case <-time.After(clearPause):
		case <-c.life.Done():
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.clearing = false
}

// await returns the verdict: nil when the runtime gives the class. A probe that is
// under way is waited for as long as ctx allows, unless there is an earlier
// verdict on the same engine, which then stands until the new one is in.
func (c *findingsCache) await(ctx context.Context, s subject, key string) error {
	c.mu.Lock()
	f := c.known[s]
	if f == nil {
		c.mu.Unlock()
		return errors.New("it was never probed")
	}
	busy, known := f.busy, f.about(key)
	c.mu.Unlock()
	if busy != nil && !known {
		select {
		case <-busy:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f.known && f.key == key:
		return f.err
	case f.busy != nil && time.Since(f.began) > probeTimeout:
		return fmt.Errorf("its probe hangs since %s; the runtime does not work on this host", f.began.Format(time.TimeOnly))
	case f.clearing:
		return errors.New("what its last probe left cannot be removed; the runtime hangs")
	}
	return errProbing
}

// checked is when what is known of a subject was found out; zero when nothing is.
func (c *findingsCache) checked(s subject) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.known[s]; f != nil && f.known {
		return f.at
	}
	return time.Time{}
}

// errProbing: nothing is known of the class yet.
var errProbing = fmt.Errorf("its probe is still running: %w", runner.ErrUnavailable)
