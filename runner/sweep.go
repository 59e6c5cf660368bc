package runner

import (
	"context"

	"github.com/google/uuid"
)

// Sweeper is the power to find what an instance has of runs, whether or not
// anybody knows of the run any more. KillSandbox removes it.
type Sweeper interface {
	// Traces finds what is left of runs. A run that is being created is not
	// among them. The error means that not everything could be looked at.
	Traces(ctx context.Context) (Traces, error)
}

// Traces is what was found.
type Traces struct {
	// Runs have something that is proven to be this instance's.
	Runs []Trace
	// Strangers carry this instance's label and are not proven to be its own:
	// they are told of, and never removed.
	Strangers []string
}

// Trace is what one run has.
type Trace struct {
	Run uuid.UUID
	Ref string // of its sandbox, whether or not there is one
	// Parts name what there is: "container", "sidecar", "network", "lease",
	// "run directory", "record".
	Parts []string
}
