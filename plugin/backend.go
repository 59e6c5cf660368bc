package plugin

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
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
	// RunDir is the folder of a run on tmpfs. It is there while the run's
	// sandbox is.
	RunDir func(run uuid.UUID) string
	// StageRoot is a folder in which each run has one of its own, named after
	// it, for the mount sources that its job named. Nothing may remove it
	// recursively while runs exist: what is bound there would go too.
	StageRoot string
	// ParkDir is a folder on disk in which parked tasks are noted; "" refuses to
	// park any.
	ParkDir string
	// Denied lists places of the host that no job may mount, beside those that
	// are the same everywhere; nil is none.
	Denied func(ctx context.Context) []string
	// Claim keeps the backend to one plugin process; nil when nobody could share it.
	Claim Claim
	// Begin starts what would get in the way of another process with the same
	// claim, and is called each time the claim is taken: another that had it
	// meanwhile has taken the place of what was begun. nil is nothing.
	Begin func() error
	// TrimSetups removes images of setups beyond what the operator keeps; nil
	// keeps all.
	TrimSetups func(ctx context.Context) error
	// Close is called when the plugin ends. Sandboxes stay.
	Close func() error
}

func (b *Backend) denied(ctx context.Context) []string {
	if b.Denied == nil {
		return nil
	}
	return b.Denied(ctx)
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
	// Approvals are those of a known run's session.
	Approvals(run uuid.UUID) []control.Approval
	// Decide rules on one of them.
	Decide(run uuid.UUID, ref string, v control.Ruling) (control.Approval, error)
	// Forget ends a run's service; an unknown run is nil.
	Forget(run uuid.UUID) error
}

var _ ControlPlane = (*control.Server)(nil)

// Outputs carries what main processes print to Nomad's log files, also while
// this process is being replaced: a part of keeper.Client.
type Outputs interface {
	// Sink takes a task's output over when its main process starts.
	Sink(t keeper.Task) runner.OutputSink
	// Wait blocks until the output has ended or broken off.
	Wait(ctx context.Context, id string) (keeper.Status, error)
	// Resume takes the output up again where it had got to; alive says whether
	// there is more to come.
	Resume(ctx context.Context, t keeper.Task, ref string, alive bool, from runner.OutputReader) (keeper.Resumed, error)
	// Status says where the output stands.
	Status(ctx context.Context, id string) (keeper.Status, error)
	// HideRecorded hides secrets in the output's recording from now on.
	HideRecorded(ctx context.Context, id string, secrets ...string) error
	// EndRecording ends the output's recording with how the task ended.
	EndRecording(ctx context.Context, t keeper.Task, how string) (keeper.Status, error)
	// Finish lets the rest flow out for at most flush and lets go of the log
	// files; a task that is not known is nil.
	Finish(ctx context.Context, t keeper.Task, flush time.Duration) error
}

var _ Outputs = (*keeper.Client)(nil)
