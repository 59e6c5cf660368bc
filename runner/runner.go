package runner

import (
	"context"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// ProxyListenPort is the port wardyn-proxy listens on inside the run's own
// network: the agent's only reachable address.
const ProxyListenPort = 3128

// Runner is the lifecycle contract. Implementations are safe for concurrent
// use, and idempotent where the verb implies it: Stop and Kill of a sandbox
// that is gone return nil.
type Runner interface {
	// Name is the substrate's name, equal to Capabilities().Driver.
	Name() string
	// Capabilities reports what this host enforces now. Nothing is claimed that was not proved.
	Capabilities(ctx context.Context) (Capabilities, error)
	// CreateSandbox provisions the sandbox and its sidecar: no route out but
	// through the sidecar. On an error nothing is left behind.
	CreateSandbox(ctx context.Context, spec SandboxSpec) (Sandbox, error)
	// Exec starts the agent and returns when it has started, not when it has
	// finished. For a main process (SandboxSpec.Task set) argv must be nil and
	// the id is ""; otherwise argv runs in the idle sandbox and the id names
	// the process for AgentStatus after a restart.
	Exec(ctx context.Context, ref string, argv []string) (agentExecID string, err error)
	// Wait blocks until the agent has exited and returns its exit code. It
	// honours ctx and rides out a substrate that cannot be asked. It is an
	// error when no agent was started for ref.
	Wait(ctx context.Context, ref string) (exitCode int, err error)
	// Attach opens a new interactive shell in a running sandbox. Closing the
	// session detaches; the sandbox and its agent are not touched.
	Attach(ctx context.Context, ref string, opts AttachOptions) (Session, error)
	// ExecStream runs argv in a running sandbox as a fresh process with its
	// own streams. It may be called any number of times on one ref.
	ExecStream(ctx context.Context, ref string, spec ExecSpec) (*ExecSession, error)
	// Status reports the sandbox's state. A sandbox that is gone is STOPPED
	// with a nil error; one that cannot be asked about is an error.
	Status(ctx context.Context, ref string) (Status, error)
	// AgentStatus reports the agent's state in a way that survives a restart,
	// by the id that Exec returned; "" means the main process.
	AgentStatus(ctx context.Context, ref, agentExecID string) (Status, error)
	// StopSandbox ends the sandbox gracefully and removes it.
	StopSandbox(ctx context.Context, ref string) error
	// KillSandbox ends the sandbox at once and removes it.
	KillSandbox(ctx context.Context, ref string) error
}

// Capabilities declares what a substrate can enforce on this host.
type Capabilities struct {
	Driver string `json:"driver"` // e.g. "docker"
	// ConfinementClasses available on this host, strongest last.
	ConfinementClasses []types.ConfinementClass `json:"confinement_classes"`
	// Resolved maps each class to the substrate label that enforces it, e.g.
	// "oci/runc", "oci/runsc", "oci/kata-qemu".
	Resolved map[types.ConfinementClass]string `json:"confinement_substrates,omitempty"`
	// StructuralEgress: a sandbox has no path but its sidecar, as probed.
	StructuralEgress bool `json:"structural_egress"`
	// NetworkPolicy: L1 support (nftables, NetworkPolicy).
	NetworkPolicy bool `json:"network_policy"`
	// SessionRecording: recordings can be made.
	SessionRecording bool `json:"session_recording"`
}

// Sandbox is a handle to a created sandbox.
type Sandbox struct {
	Ref    string // derived from the run id alone
	Driver string
	// EnforcedClass is what was applied; it ranks at or above what was asked for.
	EnforcedClass types.ConfinementClass
}

// Status is the observed state of a sandbox or of its agent.
type Status struct {
	State    types.RunState
	ExitCode *int // nil while running, or when it is not known
	Message  string
}

// ImageChecker is an optional power: is an image in the local store right now?
// Callers treat a runner without it like an error: unknown.
type ImageChecker interface {
	ImagePresent(ctx context.Context, ref string) (bool, error)
}

// ImageRemover is an optional power. Removing an image that is not there is not an error.
type ImageRemover interface {
	ImageRemove(ctx context.Context, ref string) error
}
