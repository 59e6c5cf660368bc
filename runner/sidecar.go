package runner

import (
	"context"
	"errors"
)

// ErrSidecarLost: a sidecar died and could not be replaced; the sandbox was
// stopped for it.
var ErrSidecarLost = errors.New("the sandbox's proxy is lost")

// SidecarKeeper is an optional power: it keeps the sidecars of running
// sandboxes alive.
type SidecarKeeper interface {
	// KeepSidecar looks after the sidecar of one sandbox. One that dies is
	// replaced, with the same address and with its configuration fetched anew;
	// the agent goes on, without a network meanwhile. Where that cannot be
	// done the sandbox's main process is stopped and the error is
	// ErrSidecarLost.
	//
	// heard is told of each death once it is known what comes of it, and
	// before anything is stopped. KeepSidecar returns nil when the sandbox is
	// gone or has no sidecar, and otherwise only when ctx ends.
	KeepSidecar(ctx context.Context, ref string, heard func(SidecarDeath)) error
}

// SidecarDeath is a sidecar that ended while its sandbox needed it.
type SidecarDeath struct {
	// Cause says how it ended, such as "exit code 137".
	Cause string
	// Err is why it cannot be replaced; nil when it was.
	Err error
}
