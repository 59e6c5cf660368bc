package runner

import (
	"context"
	"io"
	"time"
)

// The powers below are optional: assert for them where they are used and treat
// a runner without one as ErrUnsupported.

// Stopper ends the main process and keeps the sandbox, so that its exit code,
// output and usage can still be read. A suspended sandbox is thawed first.
type Stopper interface {
	// StopProcess sends signal ("" is the sandbox's stop signal), waits up to
	// timeout and then kills. It returns nil when the process is down.
	StopProcess(ctx context.Context, ref, signal string, timeout time.Duration) error
}

// Launcher creates a sandbox and starts its main process in one step, which may
// take less time than CreateSandbox and Exec after one another.
type Launcher interface {
	// Launch returns when the main process has been started; on an error
	// nothing is left behind. A sandbox without a task idles.
	Launch(ctx context.Context, spec SandboxSpec) (Sandbox, error)
}

// Signaler sends a signal to the main process. SIGSTOP, SIGTSTP and SIGCONT
// freeze and thaw the whole sandbox. An unknown name is ErrInvalid, a
// suspended sandbox ErrPrecondition.
type Signaler interface {
	Signal(ctx context.Context, ref, signal string) error
}

// Suspender freezes and thaws a sandbox.
type Suspender interface {
	Pause(ctx context.Context, ref string) error
	Unpause(ctx context.Context, ref string) error
}

// UsageReader samples resource use.
type UsageReader interface {
	Usage(ctx context.Context, ref string) (Usage, error)
}

// SidecarUsageReader samples the resource use of a sandbox's sidecar, which is
// no part of the sandbox's own.
type SidecarUsageReader interface {
	SidecarUsage(ctx context.Context, ref string) (Usage, error)
}

// CPUPinner moves a running sandbox to other CPUs.
type CPUPinner interface {
	// PinCPUs confines a sandbox and its sidecar to a list of CPUs such as
	// "0-2,4". ErrPrecondition when nothing runs.
	PinCPUs(ctx context.Context, ref, cpus string) error
}

// DiskReader measures what a sandbox has on disk that goes with it, in bytes.
type DiskReader interface {
	DiskUsage(ctx context.Context, ref string) (int64, error)
}

// ExitReader tells more about a main process that has exited than its code.
type ExitReader interface {
	Exit(ctx context.Context, ref string) (Exit, error)
}

// Exit is how a main process ended.
type Exit struct {
	Code      int
	Signal    int  // 0 when it exited by itself
	OOMKilled bool // the main process was killed for memory
	// ChildOOM: something in the sandbox was killed for memory, the main process was not.
	ChildOOM          bool
	Started, Finished time.Time
	// Err is set when the runtime, not the task, failed (ErrRuntimeCrashed), and
	// where Code may be made up, since nobody saw the end (ErrUnavailable).
	Err error
}

// LogDater tells how far back the substrate's own log reaches. Nobody counts
// what it has dropped; when that was printed is all that is known of it.
type LogDater interface {
	// LogStart is when the oldest record kept of a stream was printed; the zero
	// time when there is none.
	LogStart(ctx context.Context, ref, stream string) (time.Time, error)
}

// OutputReader serves recovery: a fresh attach, and the substrate's own log.
type OutputReader interface {
	// AttachOutput opens the live output of a running sandbox.
	AttachOutput(ctx context.Context, ref string) (OutputStream, error)
	// ReadLog reads the whole backlog of one stream ("stdout", "stderr") once, without following.
	ReadLog(ctx context.Context, ref, stream string) (io.ReadCloser, error)
}

// Prober re-examines the host: classes, structural egress, engine. It is what
// a health check calls; Capabilities returns its last finding.
type Prober interface {
	Probe(ctx context.Context) Findings
}

// Findings is the outcome of a probe of the host.
type Findings struct {
	// Healthy: sandboxes of at least one class can be created now.
	Healthy bool
	// Reason is a sentence for people, with the remedy when not healthy. It is
	// stable from probe to probe while nothing changes.
	Reason string
	// Pending: a class is still being probed; ask again in a moment.
	Pending       bool
	EngineVersion string
	// Classes has one entry a known class.
	Classes      []ClassFinding
	Capabilities Capabilities
}

// ClassFinding says whether a class works here, and why not.
type ClassFinding struct {
	Class   string
	Runtime string // "" when none is registered
	Works   bool
	Reason  string // why not, with the remedy
	// Checked is when this was found out; zero when nothing had to be tried.
	Checked time.Time
}

// Listed is one sandbox of this instance as a substrate lists it.
type Listed struct {
	Ref    string
	Labels map[string]string
	// Running is true while the main process lives, suspended included.
	Running   bool
	Suspended bool
}
