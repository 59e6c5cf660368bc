package docker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// poolCheck is how often warm slots are looked at.
	poolCheck = 30 * time.Second
	// poolQuiet lets a start that took a slot have the machine first; poolPatience
	// bounds that where one start follows the other.
	poolQuiet    = 300 * time.Millisecond
	poolPatience = 3 * time.Second
)

// lockPool is held by the one process that fills this installation's pool.
const lockPool = "pool"

// pool keeps slots warm in the background. The zero value keeps none, and takes
// are counted for nothing.
type pool struct {
	once   sync.Once
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	// keeping: this process looks after the slots, those of ended runs too.
	keeping atomic.Bool
}

// KeepPool fills the pool from now on, until Close. What an earlier process
// left of it is taken over, or removed where it cannot be. While another
// process fills the same pool this one waits for its end.
//
// With a size of none what is left is removed all the same.
func (r *Runner) KeepPool() {
	r.pool.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		r.pool.wake, r.pool.cancel, r.pool.done = make(chan struct{}, 1), cancel, make(chan struct{})
		go func() {
			defer close(r.pool.done)
			r.keepPool(ctx)
		}()
	})
}

// changed tells the filler that a slot was taken or left.
func (p *pool) changed() {
	select {
	case p.wake <- struct{}{}: // a nil channel takes nothing
	default:
	}
}

// stop ends the filling. Warm slots stay, for the next process.
func (p *pool) stop() {
	if p.cancel != nil {
		p.cancel()
		<-p.done
	}
}

func (r *Runner) keepPool(ctx context.Context) {
	var pause backoff
	for {
		unlock, ok, err := r.opts.Dir.TryLock(lockPool)
		if ok {
			defer unlock()
			break
		}
		if err != nil && pause.tries == 0 {
			r.opts.Log.Error("the pool is not kept", "error", err)
		}
		if pause.sleep(ctx) != nil {
			return
		}
	}
	pause.reset()
	r.pool.keeping.Store(true)
	defer r.pool.keeping.Store(false)
	for {
		err := r.tendPool(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if pause.tries == 0 {
				r.opts.Log.Warn("the pool cannot be filled; trying on", "error", err)
			}
			if pause.sleep(ctx) != nil {
				return
			}
			continue
		}
		pause.reset()
		select {
		case <-r.pool.wake:
			r.awaitQuiet(ctx)
		case <-time.After(poolCheck):
		case <-ctx.Done():
			return
		}
	}
}

// awaitQuiet returns when no slot has been taken or left for a moment.
func (r *Runner) awaitQuiet(ctx context.Context) {
	patience := time.After(poolPatience)
	for {
		select {
		case <-r.pool.wake:
		case <-time.After(poolQuiet):
			return
		case <-patience:
			return
		case <-ctx.Done():
			return
		}
	}
}

// tendPool removes slots that are of no use and makes those that are missing,
// one after the other: starts come first.
func (r *Runner) tendPool(ctx context.Context) error {
	warm, err := r.sweepPool(ctx)
	if err != nil {
		return err
	}
	for ; warm < r.opts.PoolSize; warm++ {
		select {
		case r.starts <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		mctx, cancel := context.WithTimeout(ctx, createTimeout)
		err := r.makeSlot(mctx)
		cancel()
		<-r.starts
		if err != nil {
			return err
		}
	}
	return nil
}
