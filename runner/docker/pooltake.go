package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func (r *Runner) slots() slotTable { return slotTable{r.opts.Dir} }

// netOf is the id that a run's network and sidecar are named after: its slot's
// if it has one, else its own.
func (r *Runner) netOf(run uuid.UUID) (uuid.UUID, error) {
	e, ok, err := r.slots().of(run)
	if err != nil {
		return uuid.Nil, err
	}
	if ok {
		return e.ID, nil
	}
	return run, nil
}

// takeSlot gives a warm slot to a run; nil when there is none. A slot that has
// died since it was made is passed over and removed.
func (r *Runner) takeSlot(ctx context.Context, run uuid.UUID) (*slot, error) {
	warm, err := r.slots().list(slotWarm)
	if err != nil {
		return nil, err
	}
	for _, e := range warm {
		given, ok, err := r.slots().move(e, slotGiven, run)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // another start was faster
		}
		r.pool.changed()
		s, err := r.slots().load(given)
		if err == nil {
			err = r.slotAlive(ctx, s)
		}
		if err == nil {
			return &s, nil
		}
		if errors.Is(err, runner.ErrUnavailable) {
			return nil, err // not asked is not dead
		}
		r.opts.Log.Warn("a slot of the pool had died; it is removed", "slot", e.ID, "error", err)
		if _, _, err := r.slots().move(given, slotOld, uuid.Nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// slotAlive reports why a slot cannot serve, nil when it can.
func (r *Runner) slotAlive(ctx context.Context, s slot) error {
	for name, id := range map[string]string{ProxyName(s.ID): s.Sidecar, HolderName(s.ID): s.Holder} {
		c, err := r.look(ctx, name)
		switch {
		case err != nil:
			return err
		case c.ID != id || !c.State.Running || c.State.Paused:
			return fmt.Errorf("container %s does not run: %w", name, runner.ErrPrecondition)
		}
	}
	return nil
}

// assignSidecar hands the run's configuration to the slot's sidecar, which has
// the control folder mounted and waits for a socket in it. The folder becomes
// the run's: it is the same one under another name.
func (b *build) assignSidecar(ctx context.Context) error {
	run := b.spec.RunID
	config, err := b.proxyConfig()
	if err != nil {
		return err
	}
	dir, err := b.opts.Dir.MakeRunDir(run)
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(b.opts.Dir.RunDir(b.slot.ID), controlFolder), filepath.Join(dir, controlFolder)); err != nil {
		return fmt.Errorf("control folder of slot %s: %w", b.slot.ID, err)
	}
	endpoint, err := b.opts.Control.Open(ctx, run, config, b.net.Plan)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	return b.waitSidecar(ctx, b.slot.Sidecar, endpoint.Ready)
}

// dropSlotOf forgets the slot of a run that is gone.
func (r *Runner) dropSlotOf(run uuid.UUID) error {
	e, ok, err := r.slots().of(run)
	if err != nil || !ok {
		return err
	}
	return errors.Join(r.opts.Dir.RemoveRunDir(e.ID), ignoreGone(os.Remove(r.slots().path(e.file()))))
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
