package driver

import (
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Errors of this package wrap the sentinels of package runner: ErrInvalid for
// a Spec that can never work, ErrUnsupported for what no sandbox is made by,
// ErrExhausted without a free slot, ErrNotFound for a session that is gone
// where one is needed, ErrUnavailable when the engine could not be asked.

// ErrInUse: the session's workspace is another's at the moment. It is an
// ErrExhausted, since waiting helps.
var ErrInUse = fmt.Errorf("in use: %w", runner.ErrExhausted)

// noCapacity is the refusal of a session for want of a slot.
func noCapacity(used, total int) error {
	return fmt.Errorf("no capacity: %d/%d: %w", used, total, runner.ErrExhausted)
}

func noSession(id string) error {
	return fmt.Errorf("session %q: %w", id, runner.ErrNotFound)
}
