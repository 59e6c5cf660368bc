package docker

import (
	"context"
	"errors"
	"io/fs"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

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
