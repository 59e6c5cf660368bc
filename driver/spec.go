package driver

import "github.com/wardyn/nomad-driver-wardyn/runner"

// MaxSetupBytes bounds Setup and Init, each, before encoding.
const MaxSetupBytes = 512 << 10

// Spec is everything a session is created from.
type Spec struct {
	Name        string   // human label; no resource is named after it
	Image       string   // OCI ref; "" is DockerOpts.Image
	Cmd         []string // entrypoint override; empty is the image's default
	DialURL     string   // relay URL handed to the container
	SessionID   string   // stable id, key of the workspace
	EgressAllow []string // host names the session may reach
	// ProxyURL must be empty or the sidecar's own: the substrate alone sets the
	// proxy variables.
	ProxyURL string
	// Env is extra environment.
	Env map[string]string
	// Setup is the environment's setup script, run once before the agent
	// starts. Empty means none. Capped at MaxSetupBytes.
	Setup string
	// SetupTimeoutSec bounds it; not positive is unbounded.
	SetupTimeoutSec int
	// Repos are cloned at boot.
	Repos []RepoSpec
	// Init is run at each boot, after the clones.
	Init           string
	InitTimeoutSec int
	// GitAuthorName and GitAuthorEmail are the identity of the session's commits.
	GitAuthorName  string
	GitAuthorEmail string
	// Home is the agent home; nil mounts nothing.
	Home *HomeMount
	// Sandbox is the governed half: class, policy, resources, mounts, process.
	// The driver fills Image and labels in.
	Sandbox runner.SandboxSpec
}

// RepoSpec is one repository cloned at boot.
type RepoSpec struct {
	Owner         string `json:"owner"`
	Name          string `json:"name"`
	BaseBranch    string `json:"base_branch"`
	SessionBranch string `json:"session_branch"`
	Dir           string `json:"dir"`
}

// HomeMount is a volume that outlives every session mounted on it.
type HomeMount struct {
	Volume string
	Path   string
}

// DockerOpts configures NewDocker.
type DockerOpts struct {
	Image                  string // default session image
	Network                string // overrides the name of the egress network
	TotalSlots             int    // capacity; 0 is 16
	Label                  string // label key that marks sessions; "" is "wardyn.session"
	SessionSeccompProfile  string // host path of a seccomp profile
	SessionAppArmorProfile string // name of a loaded AppArmor profile
}
