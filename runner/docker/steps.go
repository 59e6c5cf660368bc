package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
)

// step takes one of a run's belongings away. Steps find what they remove by
// name, so the same ones serve the undoing of half a creation and the removal
// of a sandbox this process has never seen.
type step struct {
	what string
	do   func(ctx context.Context) error
	// memory is what is needed to find the rest again: it is kept until the
	// rest is gone.
	memory bool
}

// steps of a run in the order in which their subjects come into being. Network,
// sidecar and lease bear the name of the run's slot where it has one.
func (r *Runner) steps(run uuid.UUID) runSteps {
	named := func(do func(ctx context.Context, id uuid.UUID) error) func(context.Context) error {
		return func(ctx context.Context) error {
			id, err := r.netOf(run)
			if err != nil {
				return err
			}
			return do(ctx, id)
		}
	}
	return runSteps{
		record: step{"forget the run", func(context.Context) error { return r.opts.Dir.RemoveRecord(run) }, true},
		slot:   step{"forget the slot", func(context.Context) error { return r.dropSlotOf(run) }, true},
		lease: step{"give the subnet back", named(func(_ context.Context, id uuid.UUID) error {
			return r.runs.Release(leaseOwner(id))
		}), true},
		folder: step{"remove the run directory", func(context.Context) error { return r.opts.Dir.RemoveRunDir(run) }, true},
		network: step{"remove the network", named(func(ctx context.Context, id uuid.UUID) error {
			return r.removeNetworks(ctx, NetworkName(id))
		}), false},
		control: step{"close the control socket", func(context.Context) error { return r.opts.Control.Close(run) }, false},
		sidecar: step{"remove the sidecar", named(r.removeSidecar), false},
		holder: step{"remove the holder", named(func(ctx context.Context, id uuid.UUID) error {
			if id == run {
				return nil
			}
			return r.removeOwned(ctx, HolderName(id))
		}), false},
		agent: step{"remove the agent", func(ctx context.Context) error {
			if err := r.removeOwned(ctx, AgentName(run)); err != nil {
				return err
			}
			return r.dropHalfCommitted(ctx, run)
		}, false},
	}
}

type runSteps struct {
	record, slot, lease, folder, network, control, sidecar, holder, agent step
}

// all is everything a run may own, oldest first. The containers go side by
// side: none needs the other to be removed.
func (s runSteps) all() []step {
	return []step{s.record, s.slot, s.lease, s.folder, s.network, s.control, together("remove the containers", s.agent, s.sidecar, s.holder)}
}

// together is one step made of several that are done at the same time.
func together(what string, steps ...step) step {
	return step{what: what, do: func(ctx context.Context) error {
		errs := make([]error, len(steps))
		var all sync.WaitGroup
		for i, s := range steps {
			all.Go(func() {
				if err := s.do(ctx); err != nil {
					errs[i] = fmt.Errorf("%s: %w", s.what, err)
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}}
}

// unwind runs steps newest first. One that fails does not keep the others from
// being tried, but the run is then not forgotten.
func unwind(ctx context.Context, steps []step) error {
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		if s.memory && len(errs) > 0 {
			continue
		}
		if err := s.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.what, err))
		}
	}
	return errors.Join(errs...)
}
