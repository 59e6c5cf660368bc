package identity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// shortest is the least time between two renewals.
const shortest = 10 * time.Second

// pause is how long to wait before tokens are renewed of which one has so much
// time left: half of that, and up to a tenth more at random. luck is in [0, 1).
func pause(left time.Duration, luck float64) time.Duration {
	half := max(left/2, shortest)
	return half + time.Duration(luck*float64(half/10))
}

// Change is told of tokens of running tasks.
type Change struct {
	// Renewed is called when a task has a new token; it acts by the identity's
	// ChangeMode.
	Renewed func(ctx context.Context, task string, id jobfile.Identity)
	// Failed is called when it could not be given one.
	Failed func(task string, err error)
}

// Renew renews tokens until ctx ends. All that end are renewed together, when
// the first of them has half of its time behind it, as a client does.
func (i *Issuer) Renew(ctx context.Context, c Change) {
	for {
		ends := i.soonest()
		if ends.IsZero() {
			return
		}
		timer := time.NewTimer(pause(time.Until(ends), rand.Float64()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		i.renew(ctx, c)
	}
}

// soonest is when the first of the tokens ends; zero when none ever does.
func (i *Issuer) soonest() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	var first time.Time
	for _, h := range i.held {
		if !h.ends.IsZero() && (first.IsZero() || h.ends.Before(first)) {
			first = h.ends
		}
	}
	return first
}

// renew renews every token that ends. The calls are made without the lock.
func (i *Issuer) renew(ctx context.Context, c Change) {
	var calls []func()
	i.mu.Lock()
	now := time.Now()
	for _, h := range i.held {
		if h.ends.IsZero() {
			continue
		}
		err := i.issue(h, now)
		place, begun := i.begun[h.task]
		if err == nil && begun {
			err = place.deliver(h)
		}
		switch {
		case err != nil:
			calls = append(calls, func() { c.Failed(h.task, fmt.Errorf("renewal failed: %w", err)) })
		case begun:
			calls = append(calls, func() { c.Renewed(ctx, h.task, h.id) })
		}
	}
	i.mu.Unlock()
	for _, call := range calls {
		if ctx.Err() == nil {
			call()
		}
	}
}
