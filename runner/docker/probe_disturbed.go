package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// maxDisturbed is how often a probe is begun whose objects somebody takes away.
const maxDisturbed = 3

// errDisturbed: somebody else ended a probe or removed what it needs. That says
// nothing about the runtime, so it is no verdict: the class is not given, and
// whoever asks next has it probed again.
var errDisturbed = fmt.Errorf("its probe was disturbed: somebody removes or kills this driver's containers or networks on the engine, and it is probed again: %w", runner.ErrUnavailable)

// errKilled: one that was killed, whether from outside or by its own runtime.
var errKilled = fmt.Errorf("%w (it was killed)", errDisturbed)

// undisturbed probes, and again where somebody came between. Nobody kills every
// one: a runtime whose probes all end so does not work.
func undisturbed(probe, clear func() error) error {
	var err error
	killed := 0
	for n := range maxDisturbed {
		if n > 0 {
			if cerr := clear(); cerr != nil {
				return errors.Join(err, cerr)
			}
		}
		if err = disturbed(probe()); !errors.Is(err, errDisturbed) {
			return err
		}
		if errors.Is(err, errKilled) {
			killed++
		}
	}
	if killed == maxDisturbed {
		return fmt.Errorf("each of %d probes was killed: exit code %d", maxDisturbed, codeKilled)
	}
	return err
}

// disturbed marks an error that says that something of the probe, which it had
// made itself, was not there any more.
func disturbed(err error) error {
	if errors.Is(err, runner.ErrNotFound) && !errors.Is(err, errDisturbed) {
		return fmt.Errorf("%w (%w)", errDisturbed, err)
	}
	return err
}

// stillThere says whether a container that ended did so by itself: a probe kills
// nothing, and one that was killed for its memory says so.
func (r *Runner) stillThere(ctx context.Context, id string, code int64) error {
	if code != codeKilled {
		return nil
	}
	c, err := r.inspectContainer(ctx, id)
	if err != nil {
		return disturbed(err)
	}
	if c.State == nil || c.State.OOMKilled {
		return nil
	}
	return errKilled
}
