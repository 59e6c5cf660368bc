package plugin

import (
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// Config is the plugin block's config as the operator wrote it.
type Config struct {
	DataDir          string             `codec:"data_dir"`
	Endpoint         string             `codec:"endpoint"`
	SubnetPool       string             `codec:"subnet_pool"`
	EgressSubnetPool string             `codec:"egress_subnet_pool"`
	PrivateHosts     any                `codec:"private_hosts"`
	AllowDomains     []string           `codec:"allow_domains"`
	DenyDomains      []string           `codec:"deny_domains"`
	AllowAllEgress   bool               `codec:"allow_all_egress"`
	Confinement      *ConfinementConfig `codec:"confinement"`
	CPUCap           int64              `codec:"cpu_cap"`
	MaxMemory        int64              `codec:"max_memory"`
	MaxPids          int64              `codec:"max_pids"`
	AllowCaps        []string           `codec:"allow_caps"`
	AllowSecretsDir  bool               `codec:"allow_secrets_dir"`
	ExposeTokens     bool               `codec:"expose_tokens"`
	Slots            int64              `codec:"slots"`
	Ports            []string           `codec:"ports"`
	Reaper           *ReaperConfig      `codec:"reaper"`
	AgentAPI         *AgentAPIConfig    `codec:"agent_api"`

	EgressPluginConfig `codec:",squash"`
	SetupPluginConfig  `codec:",squash"`
	GitPluginConfig    `codec:",squash"`
	ImageConfig        `codec:",squash"`
	MountHostConfig    `codec:",squash"`
	PoolConfig         `codec:",squash"`
	LimitHostConfig    `codec:",squash"`
	DiskHostConfig     `codec:",squash"`
	SessionHostConfig  `codec:",squash"`
	RecordHostConfig   `codec:",squash"`
}

// ConfinementConfig is the plugin's confinement block.
type ConfinementConfig struct {
	Minimum  string   `codec:"minimum"`
	Classes  []string `codec:"classes"`
	Runtimes any      `codec:"runtimes"`
}

// configSpec is the schema of the plugin block's config. Maps are of type any,
// because a typed map refuses the spelling that agents' files use.
func configSpec() *hclspec.Spec {
	s := map[string]*hclspec.Spec{
		"agent_api":          agentAPISpec(),
		"data_dir":           hclspec.Attr("data_dir", hclspec.String),
		"endpoint":           hclspec.Attr("endpoint", hclspec.String),
		"subnet_pool":        hclspec.Attr("subnet_pool", hclspec.String),
		"egress_subnet_pool": hclspec.Attr("egress_subnet_pool", hclspec.String),
		"private_hosts":      hclspec.Attr("private_hosts", hclspec.Any),
		"allow_domains":      hclspec.Attr("allow_domains", hclspec.StringList),
		"deny_domains":       hclspec.Attr("deny_domains", hclspec.StringList),
		"allow_all_egress":   hclspec.Attr("allow_all_egress", hclspec.Bool),
		"confinement": hclspec.Block("confinement", hclspec.Object(map[string]*hclspec.Spec{
			"minimum":  hclspec.Attr("minimum", hclspec.String),
			"classes":  hclspec.Attr("classes", hclspec.StringList),
			"runtimes": hclspec.Attr("runtimes", hclspec.Any),
		})),
		"cpu_cap":           hclspec.Attr("cpu_cap", hclspec.Number),
		"max_memory":        hclspec.Attr("max_memory", hclspec.Number),
		"max_pids":          hclspec.Attr("max_pids", hclspec.Number),
		"allow_caps":        hclspec.Attr("allow_caps", hclspec.StringList),
		"allow_secrets_dir": hclspec.Attr("allow_secrets_dir", hclspec.Bool),
		"expose_tokens":     hclspec.Attr("expose_tokens", hclspec.Bool),
		"slots":             hclspec.Attr("slots", hclspec.Number),
		"ports":             hclspec.Attr("ports", hclspec.StringList),
		"reaper":            reaperSpec(),
	}
	egressPluginSpec(s)
	setupPluginSpec(s)
	gitPluginSpec(s)
	addImageConfig(s)
	addMountHost(s)
	addPoolConfig(s)
	addLimitHost(s)
	addDiskHost(s)
	addSessionHost(s)
	addRecordHost(s)
	return hclspec.Object(s)
}

// TaskConfig is a task's config as its author wrote it. Options of type any
// are written in several ways; see spelling.go.
type TaskConfig struct {
	Image            string                  `codec:"image"`
	Command          string                  `codec:"command"`
	Args             []string                `codec:"args"`
	Entrypoint       any                     `codec:"entrypoint"`
	WorkDir          string                  `codec:"work_dir"`
	Hostname         string                  `codec:"hostname"`
	Idle             bool                    `codec:"idle"`
	TTY              bool                    `codec:"tty"`
	Interactive      bool                    `codec:"interactive"`
	Init             any                     `codec:"init"`
	Confinement      string                  `codec:"confinement"`
	Runtime          string                  `codec:"runtime"`
	Egress           *EgressConfig           `codec:"egress"`
	Labels           any                     `codec:"labels"`
	Volumes          []string                `codec:"volumes"`
	MountSecrets     bool                    `codec:"mount_secrets"`
	ExposeTokens     bool                    `codec:"expose_tokens"`
	ReadonlyRootfs   bool                    `codec:"readonly_rootfs"`
	PidsLimit        int64                   `codec:"pids_limit"`
	ShmSize          string                  `codec:"shm_size"`
	CPUHardLimit     bool                    `codec:"cpu_hard_limit"`
	CapAdd           []string                `codec:"cap_add"`
	CapDrop          []string                `codec:"cap_drop"`
	Ulimit           any                     `codec:"ulimit"`
	Sysctl           any                     `codec:"sysctl"`
	DNSServers       any                     `codec:"dns_servers"`
	DNSSearch        any                     `codec:"dns_search_domains"`
	DNSOptions       any                     `codec:"dns_options"`
	Inject           map[string]InjectConfig `codec:"inject"`
	Git              map[string]GitConfig    `codec:"git"`
	Ports            any                     `codec:"ports"`
	ImageTaskConfig  `codec:",squash"`
	MountTaskConfig  `codec:",squash"`
	SessionConfig    `codec:",squash"`
	SetupTaskConfig  `codec:",squash"`
	LimitTaskConfig  `codec:",squash"`
	RecordTaskConfig `codec:",squash"`
	// Declined holds every other option of the schema; see declined.go.
	Declined map[string]any `codec:",remain"`
}

// EgressConfig is a task's egress block.
type EgressConfig struct {
	Allow     []string `codec:"allow"`
	Deny      []string `codec:"deny"`
	Methods   []string `codec:"methods"`
	AllowAll  bool     `codec:"allow_all"`
	FirstUse  string   `codec:"first_use"`
	Intercept []string `codec:"intercept"`
	Learn     bool     `codec:"learn"`
}

// taskSpec is the schema of a task's config. Nothing is required in it: the
// client would report one missing option and hide everything else that is
// wrong. Options that are refused are in it too, because the client's own
// refusal of an unknown one names no remedy.
func taskSpec() *hclspec.Spec {
	s := map[string]*hclspec.Spec{
		"egress": hclspec.Block("egress", hclspec.Object(map[string]*hclspec.Spec{
			"allow":     hclspec.Attr("allow", hclspec.StringList),
			"deny":      hclspec.Attr("deny", hclspec.StringList),
			"methods":   hclspec.Attr("methods", hclspec.StringList),
			"allow_all": hclspec.Attr("allow_all", hclspec.Bool),
			"first_use": hclspec.Attr("first_use", hclspec.String),
			"intercept": hclspec.Attr("intercept", hclspec.StringList),
			"learn":     hclspec.Attr("learn", hclspec.Bool),
		})),
	}
	s["inject"], s["git"] = injectSpec(), gitSpec()
	for typ, names := range map[string][]string{
		hclspec.String:     {"image", "command", "work_dir", "hostname", "confinement", "runtime", "shm_size"},
		hclspec.StringList: {"args", "volumes", "cap_add", "cap_drop"},
		hclspec.Number:     {"pids_limit"},
		hclspec.Bool:       {"idle", "tty", "interactive", "mount_secrets", "expose_tokens", "readonly_rootfs", "cpu_hard_limit"},
		hclspec.Any:        {"entrypoint", "init", "labels", "ulimit", "sysctl", "dns_servers", "dns_search_domains", "dns_options", "ports"},
	} {
		for _, name := range names {
			s[name] = hclspec.Attr(name, typ)
		}
	}
	addImageTask(s)
	addMountTask(s)
	sessionSpec(s)
	setupSpec(s)
	addLimitTask(s)
	addRecordTask(s)
	for name := range declined {
		s[name] = hclspec.Attr(name, hclspec.Any)
	}
	return hclspec.Object(s)
}
