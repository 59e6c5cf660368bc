package runner

import (
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Resource defaults, applied to every zero field of Resources, so that each
// sandbox is capped even when nobody set anything.
const (
	DefaultCPUMillis int64 = 2000 // 2 vCPU
	DefaultMemoryMiB int64 = 4096 // hard memory cap
	DefaultPidsLimit int64 = 512  // processes and threads
)

// What a sandbox needs to come up and to be worked in: its init takes up to a dozen
// threads, and so does each command that is run in it.
const (
	MinMemoryMiB int64 = 16
	MinPidsLimit int64 = 32
)

// SandboxSpec is everything a substrate needs to create one governed sandbox.
type SandboxSpec struct {
	RunID uuid.UUID
	Image string
	// ConfinementClass asked for; "" means CC1 inside a substrate.
	ConfinementClass types.ConfinementClass
	// Env is non-secret environment. The proxy's variables are the substrate's and win.
	Env map[string]string
	// ProxyConfig is the sidecar's half. RunToken and ControlPlaneURL may be
	// left empty where the substrate has a control plane of its own.
	ProxyConfig ProxyConfig
	Resources   Resources
	// Labels are attached to the sandbox; reserved keys are the substrate's.
	Labels map[string]string
	// Mounts are host binds set by operator or policy, never by a request;
	// each must pass ValidateMount.
	Mounts []Mount
	// Interactive marks a run that comes up idle for people to attach to.
	Interactive bool
	// Task, when set, makes the task's command the sandbox's main process.
	Task *TaskProcess
}

// Resources are hard caps. A zero field means the substrate's default.
type Resources struct {
	CPUMillis int64
	MemoryMiB int64
	// PidsLimit caps processes and threads.
	PidsLimit int64
	// DiskMiB caps writable storage where the backend can.
	DiskMiB int64
}

// WithDefaults returns r with every zero or negative field but DiskMiB filled in.
func (r Resources) WithDefaults() Resources {
	if r.CPUMillis <= 0 {
		r.CPUMillis = DefaultCPUMillis
	}
	if r.MemoryMiB <= 0 {
		r.MemoryMiB = DefaultMemoryMiB
	}
	if r.PidsLimit <= 0 {
		r.PidsLimit = DefaultPidsLimit
	}
	return r
}

// ProxyConfig is a run's egress configuration.
type ProxyConfig struct {
	// RunToken authenticates the sidecar to its control plane.
	RunToken string
	// ControlPlaneURL is where the sidecar fetches its configuration and posts decisions.
	ControlPlaneURL string
	// Policy is the egress policy; a sidecar without one refuses everything.
	Policy types.RunPolicySpec
	// Injection lists credentials the sidecar resolves at its start. Values never stand here.
	Injection []InjectionGrant
	// MITMCACertPEM and MITMCAKeyPEM are the run's own CA; the key goes to the sidecar only.
	MITMCACertPEM string
	MITMCAKeyPEM  string
	// MITMHosts are exact host names whose TLS is intercepted.
	MITMHosts []string
	// MITMLLM: the built-in model hosts are intercepted too.
	MITMLLM bool
	// GitGrants maps "org/repo" to the grant that opens it.
	GitGrants map[string]uuid.UUID
	// UpstreamProxyURL is a corporate parent proxy, scheme http only.
	UpstreamProxyURL string
}

// InjectionGrant pairs a credential grant with its injection rule.
type InjectionGrant struct {
	GrantID uuid.UUID            `json:"grant_id"`
	Rule    egress.InjectionRule `json:"rule"`
}

// Mount is one host bind mount.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only"`
}
