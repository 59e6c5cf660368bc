package docker

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
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

// sweepPool removes what nobody can use and counts what is warm. Only the
// filler makes slots, so one in the making is an earlier process's.
func (r *Runner) sweepPool(ctx context.Context) (warm int, err error) {
	all, err := r.slots().list()
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, e := range all {
		useless := e.State == slotMaking || e.State == slotOld
		switch e.State {
		case slotWarm:
			useless, err = r.spent(ctx, e, warm)
		case slotGiven:
			useless, err = r.orphaned(e)
		}
		switch {
		case err != nil:
			errs = append(errs, err)
		case useless:
			errs = append(errs, r.retireSlot(ctx, e))
		case e.State == slotWarm:
			warm++
		}
	}
	return warm, errors.Join(errs...)
}

// spent reports whether a warm slot cannot serve, or is one too many.
func (r *Runner) spent(ctx context.Context, e slotEntry, warm int) (bool, error) {
	if warm >= r.opts.PoolSize {
		return true, nil
	}
	_, tools, err := r.opts.Tools.Image()
	if err != nil {
		return false, err
	}
	s, err := r.slots().load(e)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // taken meanwhile
	}
	if err != nil || s.Tools != tools {
		return true, nil
	}
	err = r.slotAlive(ctx, s)
	if errors.Is(err, runner.ErrUnavailable) {
		return false, err
	}
	return err != nil, nil
}

// orphaned reports whether the run that a slot was given to is gone.
func (r *Runner) orphaned(e slotEntry) (bool, error) {
	_, err := r.opts.Dir.LoadRecord(e.Run)
	return errors.Is(err, fs.ErrNotExist), ignoreGone(err)
}

// retireSlot removes a slot, unless it was given away in the same moment.
func (r *Runner) retireSlot(ctx context.Context, e slotEntry) error {
	if e.State != slotOld {
		_, ok, err := r.slots().move(e, slotOld, uuid.Nil)
		if !ok || err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	return r.removeSlot(ctx, e.ID)
}

// WarmSlots counts the slots that wait for a task.
func (r *Runner) WarmSlots() (int, error) {
	warm, err := r.slots().list(slotWarm)
	return len(warm), err
}

// RemovePool removes every slot, for an installation that ends. Runs that were
// given one must be gone, and no process may be filling the pool.
func (r *Runner) RemovePool(ctx context.Context) error {
	all, err := r.slots().list()
	errs := []error{err}
	for _, e := range all {
		errs = append(errs, r.removeSlot(ctx, e.ID))
	}
	return errors.Join(errs...)
}
