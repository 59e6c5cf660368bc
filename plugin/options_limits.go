package plugin

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// LimitTaskConfig is the part of a task's config that is about limits, devices
// and profiles.
type LimitTaskConfig struct {
	Devices         any      `codec:"devices"`
	GroupAdd        []string `codec:"group_add"`
	AppArmorProfile string   `codec:"apparmor_profile"`
	SecurityOpt     any      `codec:"security_opt"`
	CpusetCpus      string   `codec:"cpuset_cpus"`
	OOMScoreAdj     int64    `codec:"oom_score_adj"`
	Logging         any      `codec:"logging"`
	Healthchecks    any      `codec:"healthchecks"`
	NetworkMode     string   `codec:"network_mode"`
	StorageOpt      any      `codec:"storage_opt"`
	StopSignal      string   `codec:"stop_signal"`
}

// addLimitTask adds the schema of LimitTaskConfig.
func addLimitTask(s map[string]*hclspec.Spec) {
	for _, name := range []string{"devices", "security_opt", "logging", "healthchecks", "storage_opt"} {
		s[name] = hclspec.Attr(name, hclspec.Any)
	}
	for _, name := range []string{"apparmor_profile", "cpuset_cpus", "network_mode", "stop_signal"} {
		s[name] = hclspec.Attr(name, hclspec.String)
	}
	s["group_add"] = hclspec.Attr("group_add", hclspec.StringList)
	s["oom_score_adj"] = hclspec.Attr("oom_score_adj", hclspec.Number)
}

// limitAsk is what a task's author asked for of these.
type limitAsk struct {
	Devices     []runner.Device
	Groups      []string
	AppArmor    string
	SeccompFile string // the operator's file
	Cpuset      string
	OOMScoreAdj int64
	Log         runner.LogRotation
	NoNetwork   bool
	StopSignal  string
	DiskMiB     int64 // 0 is not limited
}

// readMore reads devices, groups, profiles and the limits that other drivers
// have under these names.
func (a *ask) readMore(c TaskConfig, h HostConfig, f *faults) {
	a.readDevices(c.Devices, h.Limits, f)
	a.readDisk(c.StorageOpt, h.Disk, f)
	for _, g := range c.GroupAdd {
		id, err := strconv.ParseInt(g, 10, 64)
		switch {
		case err != nil:
			f.add("group_add", g, "want the number of a group: names differ between image and host", "")
		case !slices.Contains(h.Limits.Groups, id):
			f.add("group_add", g, "the operator does not allow it (plugin option allow_groups)", "remove it")
		default:
			a.Groups = append(a.Groups, g)
		}
	}
	a.AppArmor = c.AppArmorProfile
	a.readSecurityOpt(c.SecurityOpt, h.Limits, f)
	if a.AppArmor != "" && !slices.Contains(h.Limits.AppArmor, a.AppArmor) {
		f.add("apparmor_profile", a.AppArmor, "it is none of the operator's (plugin option apparmor_profiles)", "remove the line for the driver's own")
	}
	if c.CpusetCpus != "" && !cpuset.MatchString(c.CpusetCpus) {
		f.add("cpuset_cpus", c.CpusetCpus, "that is no list of CPUs", `for instance "0-2,4"`)
	}
	a.Cpuset = c.CpusetCpus
	switch n := c.OOMScoreAdj; {
	case n < 0 || n > 1000:
		f.add("oom_score_adj", n, "want 0 to 1000: a sandbox never goes after the host's own services", "")
	case n > 0 && n < runner.AgentOOMScore:
		a.note(fmt.Sprintf("oom_score_adj = %d has no effect: a sandbox has at least %d, to go before its proxy", n, runner.AgentOOMScore))
	default:
		a.OOMScoreAdj = n
	}
	var err error
	switch a.StopSignal, err = signalName(c.StopSignal); {
	case err != nil:
		f.add("stop_signal", c.StopSignal, err.Error(), `for instance "SIGINT"`)
	case endsNone(a.StopSignal):
		f.add("stop_signal", c.StopSignal, "it ends no sandbox: it freezes or thaws one, or is kept by its init", `for instance "SIGINT"`)
	}
	a.readLogging(c.Logging, f)
	a.readHealthchecks(c.Healthchecks, f)
	a.readNetworkMode(c, f)
}

var cpuset = regexp.MustCompile(`^\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*$`)

// readSecurityOpt takes what every sandbox has, and profiles by the names that
// the operator gave them.
func (a *ask) readSecurityOpt(v any, r LimitRules, f *faults) {
	list, err := stringList(v)
	if err != nil {
		f.add("security_opt", nil, err.Error(), "")
	}
	for _, o := range list {
		name, value, _ := strings.Cut(strings.Replace(o, ":", "=", 1), "=")
		switch {
		case name == "no-new-privileges" && (value == "" || value == "true"):
		case name == "apparmor" && slices.Contains(r.AppArmor, value):
			a.AppArmor = value
		case name == "seccomp" && r.Seccomp[value] != "":
			a.SeccompFile = r.Seccomp[value]
		case name == "apparmor":
			f.add("security_opt", o, "the profile is none of the operator's (plugin option apparmor_profiles)", "remove it for the driver's own")
		case name == "seccomp":
			f.add("security_opt", o, "the profile is none of the operator's (plugin option seccomp_profiles), and a job's own could be one that closes nothing", "remove it for the driver's own")
		default:
			f.add("security_opt", o, "the security profile is the driver's", "remove it; no-new-privileges is always on")
		}
	}
}

// readLogging takes the sizes of the engine's own log, which is the backlog
// for when nobody reads; where output goes is Nomad's matter.
func (a *ask) readLogging(v any, f *faults) {
	m, err := anyMap(v)
	if err == nil {
		err = onlyKeys(m, "logging.", "type", "driver", "config", "options")
	}
	if err != nil {
		f.add("logging", nil, err.Error(), "write a block")
		return
	}
	for _, k := range []string{"type", "driver"} {
		if kind, _ := scalar(m[k]); kind != "" && kind != "json-file" {
			f.add("logging."+k, kind, "output goes to Nomad, and from there wherever the agent sends it", `remove the block, or write "json-file" with the sizes of the backlog`)
		}
	}
	for _, name := range []string{"config", "options"} { // podman's driver says options
		a.readBacklog("logging."+name, m[name], f)
	}
}

// readBacklog takes the sizes of the log in the engine.
func (a *ask) readBacklog(field string, v any, f *faults) {
	config, err := stringMap(v)
	if err != nil {
		f.add(field, nil, err.Error(), "")
	}
	for _, k := range slices.Sorted(maps.Keys(config)) {
		switch k {
		case "max-size":
			if a.Log.SizeMiB, err = sizeMiB(config[k]); err != nil || a.Log.SizeMiB > 1024 {
				f.add(field+".max-size", config[k], "want a size up to 1g", "")
			}
		case "max-file":
			if a.Log.Files, err = strconv.ParseInt(config[k], 10, 64); err != nil || a.Log.Files < 2 || a.Log.Files > 100 {
				f.add(field+".max-file", config[k], "want a number from 2 to 100: with one file, what has not been read yet is lost as it fills up", "")
			}
		default:
			f.add(field+"."+k, nil, "the backlog has max-size and max-file only", "remove it")
		}
	}
}

func (a *ask) readHealthchecks(v any, f *faults) {
	m, err := anyMap(v)
	if err == nil {
		err = onlyKeys(m, "healthchecks.", "disable")
	}
	off := false
	if err == nil {
		off, err = boolean(m["disable"])
	}
	if err != nil || len(m) > 0 && !off {
		f.add("healthchecks", nil, "health checks of the image are never run", "write disable = true, or remove the block; use a check of the service block")
	}
}

// readNetworkMode takes "none": no network at all, hence no proxy and nothing
// that needs one.
func (a *ask) readNetworkMode(c TaskConfig, f *faults) {
	switch c.NetworkMode {
	case "":
		return
	case "none":
		a.NoNetwork = true
	default:
		f.add("network_mode", c.NetworkMode, "the sandbox has a network of its own, on which only its proxy answers", `remove the line: ports = [...] opens the group's ports without it, and egress.allow lists what the task may reach; "none" gives no network at all`)
		return
	}
	for _, x := range []struct {
		name string
		used bool
	}{
		{"egress", c.Egress != nil && (len(c.Egress.Allow) > 0 || c.Egress.AllowAll)}, {"inject", len(c.Inject) > 0}, {"ports", asks(c.Ports)},
		{"git", len(c.Git) > 0}, {"repo", len(c.Repo) > 0},
	} {
		if x.used {
			f.add(x.name, nil, `with network_mode = "none" there is no proxy that could serve it`, "remove one of the two")
		}
	}
}

// checkPowers refuses what only containers of the host's own kernel have, and
// CPUs that are chosen twice.
func checkPowers(a ask, g given, class types.ConfinementClass, f *faults) {
	for _, x := range []struct {
		name string
		used bool
	}{
		{"devices", len(a.Devices)+len(g.Devices) > 0}, {"apparmor_profile", a.AppArmor != ""}, {"security_opt", a.SeccompFile != ""},
	} {
		if x.used && class != "" && class != types.CC1 {
			f.add(x.name, nil, fmt.Sprintf("under %s the sandbox has a kernel of its own, to which it means nothing", class), `write confinement = "CC1", if the operator offers it`)
		}
	}
	if a.Cpuset != "" && g.Cores != "" {
		f.add("cpuset_cpus", a.Cpuset, "Nomad reserved the cores "+g.Cores+" for the task", "remove cpuset_cpus or cores")
	}
}
