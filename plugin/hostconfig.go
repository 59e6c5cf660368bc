package plugin

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// HostConfig is what the operator decided, read and checked: where things are
// kept, and the ceilings that no job can exceed.
type HostConfig struct {
	DataDir  string // "" is the driver's own default
	Endpoint string // "" is the engine's usual socket, else unix:///path

	SubnetPool netip.Prefix // runs' own networks; invalid means the default
	EgressPool netip.Prefix // the egress network; invalid means the default

	// PrivateHosts opens single private upstreams.
	PrivateHosts map[string]egress.PrivateHost
	// AllowDomains, when not empty, is the most that jobs may allow.
	AllowDomains []string
	// DenyDomains is refused to every job.
	DenyDomains []string
	// AllowAllEgress lets jobs ask for egress.allow_all.
	AllowAllEgress bool

	// MinClass is the weakest class a job may run under; "" is CC1.
	MinClass types.ConfinementClass
	// Classes are the ones offered; empty means all.
	Classes []types.ConfinementClass
	// Runtimes pins the engine's runtime of a class.
	Runtimes map[types.ConfinementClass]string

	CPUCapMillis int64 // hard cap of every task; 0 is the default
	MaxMemoryMiB int64 // 0 does not cap
	MaxPids      int64 // 0 does not cap

	AllowCaps       []string // without CAP_, upper case
	AllowSecretsDir bool
	ExposeTokens    bool
	Images          ImageRules
	Volumes         VolumeRules
	Limits          LimitRules
	Disk            DiskRules
	Record          RecordRules
	Setups          SetupRules
	Sessions        SessionRules
	Slots           int // 0 is the size of the subnet pool
	PoolSize        int // slots kept warm
	// Ports are the host's ports that tasks may have; nil is every port that
	// Nomad assigns.
	Ports []portRange
	// Reaper says what becomes of what no task accounts for.
	Reaper reaperPlan

	// AgentAPI is a Nomad agent to be asked what none tells a driver; nil is none.
	AgentAPI *AgentAPI

	EgressHost
	GitHost
}

// Offers reports whether the operator offers a class.
func (h HostConfig) Offers(c types.ConfinementClass) bool {
	return len(h.Classes) == 0 || slices.Contains(h.Classes, c)
}

// Ranges used when the operator names none.
var (
	defaultSubnetPool = netip.MustParsePrefix("10.213.0.0/16")
	defaultEgressPool = netip.MustParsePrefix("10.214.0.0/16")
)

// hostConfig reads the operator's options. It looks at nothing but the
// options: whether the engine, the disk or the pool can be used is a matter of
// health. The error lists every fault, after what was wrong before.
func hostConfig(c Config, before ...Fault) (HostConfig, error) {
	h, f := judgeHostConfig(c)
	return h, f.after(before).err()
}

func judgeHostConfig(c Config) (HostConfig, *faults) {
	f := &faults{what: "the plugin's config"}
	h := HostConfig{
		DataDir: c.DataDir, Endpoint: c.Endpoint,
		AllowDomains: c.AllowDomains, DenyDomains: c.DenyDomains, AllowAllEgress: c.AllowAllEgress,
		AllowSecretsDir: c.AllowSecretsDir, ExposeTokens: c.ExposeTokens,
		CPUCapMillis: c.CPUCap, MaxMemoryMiB: c.MaxMemory, MaxPids: c.MaxPids, Slots: int(c.Slots),
	}
	if c.DataDir != "" && (!path.IsAbs(c.DataDir) || path.Clean(c.DataDir) != c.DataDir) {
		f.add("data_dir", c.DataDir, "want an absolute path without . and ..", "")
	}
	if p, ok := strings.CutPrefix(c.Endpoint, "unix://"); c.Endpoint != "" && (!ok || !path.IsAbs(p)) {
		f.add("endpoint", c.Endpoint, "only an engine on this node can be used", "write unix:///path/to/docker.sock")
	}
	h.SubnetPool, h.EgressPool = pools(f, c)
	h.PrivateHosts = privateHosts(f, c.PrivateHosts)
	for _, e := range c.AllowDomains {
		if _, err := egress.ParseCeiling(e); err != nil {
			f.add("allow_domains", nil, err.Error(), "")
		}
	}
	for _, e := range c.DenyDomains {
		if err := egress.ValidateDeny(e); err != nil {
			f.add("deny_domains", nil, err.Error(), "")
		}
	}
	if c.Confinement != nil {
		h.MinClass, h.Classes, h.Runtimes = confinementOptions(f, *c.Confinement)
	}
	for name, v := range map[string]int64{"cpu_cap": c.CPUCap, "max_memory": c.MaxMemory, "max_pids": c.MaxPids, "slots": c.Slots} {
		if v < 0 || v > 1<<31 {
			f.add(name, v, "want a positive number", "remove the line for the default")
		}
	}
	if c.MaxPids > 0 && c.MaxPids < runner.MinPidsLimit {
		f.add("max_pids", c.MaxPids, "no sandbox starts with so few", fmt.Sprintf("write %d or more, or remove the line for no maximum", runner.MinPidsLimit))
	}
	h.AllowCaps = allowCaps(f, c.AllowCaps)
	h.EgressHost, h.GitHost = egressHost(f, c.EgressPluginConfig), gitHost(f, c.GitPluginConfig)
	h.Ports = portRanges(f, c.Ports)
	h.Reaper = reaperOptions(f, c.Reaper)
	h.Images = imageRules(f, c.ImageConfig)
	h.Setups = setupRules(f, c.Setup)
	h.Volumes = volumeRules(f, c.Volumes)
	h.PoolSize = poolSize(f, c.PoolConfig, h)
	h.Limits = limitRules(f, c.LimitHostConfig)
	h.Disk = diskRules(f, c.DiskHostConfig)
	h.Sessions = sessionRules(c.Sessions)
	h.AgentAPI = agentAPI(f, c.AgentAPI)
	h.Record = recordRules(f, c.RecordHostConfig)
	sortFaults(f)
	return h, f
}

func confinementOptions(f *faults, c ConfinementConfig) (minimum types.ConfinementClass, classes []types.ConfinementClass, runtimes map[types.ConfinementClass]string) {
	minimum = types.ConfinementClass(c.Minimum)
	if c.Minimum != "" && minimum.Rank() == 0 {
		f.add("confinement.minimum", c.Minimum, "no such class", "write CC1, CC2 or CC3")
	}
	for _, name := range c.Classes {
		class := types.ConfinementClass(name)
		switch {
		case class.Rank() == 0:
			f.add("confinement.classes", name, "no such class", "write CC1, CC2 or CC3")
		case class.Rank() < minimum.Rank():
			f.add("confinement.classes", name, "it is below confinement.minimum, "+c.Minimum, "remove one of the two")
		default:
			classes = append(classes, class)
		}
	}
	raw, err := stringMap(c.Runtimes)
	if err != nil {
		f.add("confinement.runtimes", c.Runtimes, err.Error(), `write runtimes { CC2 = "runsc" }`)
	}
	runtimes = make(map[types.ConfinementClass]string, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		class, rt := types.ConfinementClass(name), raw[name]
		switch {
		case class.Rank() == 0:
			f.add("confinement.runtimes", name, "no such class", "write CC1, CC2 or CC3")
		case class == types.CC2 && !strings.HasPrefix(rt, "runsc"):
			f.add("confinement.runtimes.CC2", rt, "CC2 is gVisor", `name a runtime that starts with "runsc"`)
		case class == types.CC3 && runner.IsKnownNonVaultRuntime(rt):
			f.add("confinement.runtimes.CC3", rt, "CC3 is a virtual machine, and this runtime makes none", `name a Kata runtime or "krun"`)
		default:
			runtimes[class] = rt
		}
	}
	return minimum, classes, runtimes
}

func allowCaps(f *faults, names []string) []string {
	var out []string
	for _, name := range names {
		c := capName(name)
		if !slices.Contains(grantable, c) {
			f.add("allow_caps", name, "this capability is never given to a sandbox", "the ones that can be are "+strings.Join(grantable, ", "))
			continue
		}
		out = append(out, c)
	}
	return out
}

// sortFaults gives a stable order to what was found while walking maps.
func sortFaults(f *faults) {
	slices.SortStableFunc(f.list, func(a, b Fault) int { return strings.Compare(a.Field, b.Field) })
}
