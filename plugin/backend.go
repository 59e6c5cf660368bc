package plugin

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Backend is what tasks are run with. The plugin makes it once, when the first
// call needs it; see [Options].
type Backend struct {
	// Driver decides existence, Runner acts inside living sandboxes. What the
	// optional powers of package runner are needed for is not to be had from a
	// Runner without them.
	Driver driver.Driver
	Runner runner.Runner
	// Control answers the sidecars.
	Control ControlPlane
	// Outputs carries what main processes print.
	Outputs Outputs
	// Ref is the ref, and the driver's id, of a run's sandbox.
	Ref func(run uuid.UUID) string
	// StageRoot is a folder in which each run has one of its own, named after
	// it, for the mount sources that its job named. Nothing may remove it
	// recursively while runs exist: what is bound there would go too.
	StageRoot string
	// Close is called when the plugin ends. Sandboxes stay.
	Close func() error
}

// Build makes a Backend. ctx ends when the plugin does.
type Build func(ctx context.Context, h HostConfig, log *slog.Logger) (*Backend, error)

// ControlPlane is what tasks need of the control endpoint: a part of
// control.Server.
type ControlPlane interface {
	// Prepare makes a run known before its sidecar exists.
	Prepare(r control.Run) error
	// Resume serves a run again in a new process.
	Resume(ctx context.Context, r control.Run) (egress.Endpoint, error)
	// Summary counts a known run's decisions.
	Summary(run uuid.UUID) (control.Summary, bool)
	// Forget ends a run's service; an unknown run is nil.
	Forget(run uuid.UUID) error
}

var _ ControlPlane = (*control.Server)(nil)

// Run is one attempt of a task, as its output knows it.
type Run struct {
	ID uuid.UUID
	// Ref is the ref of its sandbox.
	Ref string
	// Stdout and Stderr are Nomad's log files.
	Stdout, Stderr string
}

// Outputs carries what main processes print to Nomad's log files, also while
// this process is being replaced: internal/keeper's client.
type Outputs interface {
	// Sink takes a run's output over when its main process starts.
	Sink(r Run) runner.OutputSink
	// Resume takes it up again after a restart of this process. It returns how
	// many bytes are lost for good, 0 in all but the worst case.
	Resume(ctx context.Context, r Run, from runner.OutputReader) (lost int64, err error)
	// Drain waits until everything a main process printed has been handed on.
	Drain(ctx context.Context, r Run) error
	// Forget lets go of a run's log files; an unknown run is nil.
	Forget(run uuid.UUID) error
}
