package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Party is who decided a setting.
type Party string

// Who decides about a task.
const (
	ByAuthor   Party = "author"   // the job file
	ByOperator Party = "operator" // the plugin's config
	ByNomad    Party = "nomad"    // the client
	ByDefault  Party = "default"  // the driver
)

// Setting is one thing that holds for a task, and who decided it.
type Setting struct {
	Section string `json:"section"` // sandbox, egress, limits, mounts ...
	Name    string `json:"name"`
	Value   string `json:"value"`
	By      Party  `json:"by"`
	Why     string `json:"why,omitempty"` // the option that decided it, where the name does not say so
}

// settings reads out of a plan what will hold for the task. The plan is what is
// handed down; who decided is told from what was asked and what is allowed.
// Values of the environment are left out: they may be secrets.
func settings(t *driverpb.TaskConfig, j judged, pl plan, h HostConfig) []Setting {
	s := &settingList{}
	s.sandbox(j, pl, h)
	s.egress(j.ask, pl.Spec.Sandbox.ProxyConfig.Policy, h)
	s.before(j.ask, pl)
	s.sessions(h.Sessions)
	s.ports(j.given)
	s.limits(j, pl.Spec.Sandbox, h)
	s.powers(j, pl.Spec.Sandbox, h)
	s.mounts(t, j, pl)
	s.environment(t, pl.Spec.Env)
	return s.list
}

type settingList struct {
	section string
	list    []Setting
}

func (s *settingList) add(name, value string, by Party, why string) {
	s.list = append(s.list, Setting{s.section, name, value, by, why})
}

// asked adds what the author wrote, or the default where they wrote nothing.
func (s *settingList) asked(name, value, fallback string) {
	if value != "" {
		s.add(name, value, ByAuthor, "")
		return
	}
	s.add(name, fallback, ByDefault, "")
}

func (s *settingList) sandbox(j judged, pl plan, h HostConfig) {
	s.section = "sandbox"
	p := pl.Spec.Sandbox.Task
	class := string(pl.Spec.Sandbox.ConfinementClass)
	switch {
	case j.ask.Class != "":
		option, _ := j.ask.classAsked()
		s.add("class", class, ByAuthor, option)
	case h.MinClass != "" || len(h.Classes) > 0:
		s.add("class", class, ByOperator, "the strongest that works, within the plugin option confinement")
	default:
		s.add("class", class, ByDefault, "the strongest that works")
	}
	s.asked("image", pl.Spec.Image, "not known yet")
	switch p := j.ask.Pull; {
	case p.Load != nil:
		s.add("image comes from", p.Load.String(), ByAuthor, "load")
	case p.Source.Always:
		s.add("image comes from", "its registry, each time", ByAuthor, "force_pull")
	default:
		s.add("image comes from", "this node, else its registry", ByDefault, "")
	}
	switch {
	case p.Idle:
		s.add("command", "none: the sandbox idles", ByAuthor, "idle")
	default:
		s.asked("entrypoint", listed(p.Entrypoint), "the image's")
		s.asked("command", listed(p.Argv), "the image's")
	}
	s.asked("user", p.User, "the image's")
	s.asked("work_dir", p.WorkDir, "the image's")
	s.asked("hostname", p.Hostname, "agent")
	s.asked("tty", on(p.TTY), "false")
	s.asked("interactive", on(p.Stdin), "false")
	switch {
	case h.Record.Always:
		s.add("record", "true", ByOperator, "plugin option record")
	default:
		s.asked("record", on(j.ask.Record), "false")
	}
	s.asked("record_inside", on(j.ask.RecordInside), "false")
	s.asked("readonly_rootfs", on(p.ReadonlyRootfs), "false")
	s.asked("capabilities", strings.Join(p.CapAdd, ", "), "none")
	for _, k := range slices.Sorted(maps.Keys(p.Sysctls)) {
		s.add("sysctl "+k, p.Sysctls[k], ByAuthor, "")
	}
	for _, k := range slices.Sorted(maps.Keys(j.ask.Labels)) {
		s.add("label "+k, j.ask.Labels[k], ByAuthor, "")
	}
}

// egress is everything that decides about a request, in the proxy's order.
func (s *settingList) egress(a ask, policy types.RunPolicySpec, h HostConfig) {
	s.section = "egress"
	for _, d := range h.DenyDomains {
		s.add("deny", d, ByOperator, "plugin option deny_domains")
	}
	for _, d := range policy.DeniedDomains {
		s.add("deny", d, ByAuthor, "")
	}
	for _, d := range h.AllowDomains {
		s.add("ceiling", d, ByOperator, "plugin option allow_domains: nothing else can be allowed")
	}
	for _, d := range policy.AllowedDomains {
		s.add("allow", d, ByAuthor, "")
	}
	for _, name := range slices.Sorted(maps.Keys(h.PrivateHosts)) {
		s.add("private host", name, ByOperator, "plugin option private_hosts; the job must allow it all the same")
	}
	s.credentials(a, h)
	s.asked("methods", strings.Join(a.Methods, ", "), "all")
	switch {
	case policy.AllowAllEgress:
		s.add("everything else", "allowed", ByAuthor, "egress.allow_all")
	case a.Learn:
		s.add("everything else", "allowed and recorded", ByAuthor, "egress.learn, within the plugin option allow_learn")
	case policy.FirstUseApproval.RaisesApproval():
		s.add("everything else", "put to a reviewer", ByAuthor, fmt.Sprintf("first_use = %s; plugin option approvals = %s", policy.FirstUseApproval, h.Approvals))
	default:
		s.add("everything else", "denied", ByDefault, "first_use = "+string(policy.FirstUseApproval))
	}
}

// credentials are whose TLS is opened, and what is put into it.
func (s *settingList) credentials(a ask, h HostConfig) {
	for _, host := range h.Intercept {
		s.add("intercept", host, ByOperator, "plugin option intercept")
	}
	for _, host := range a.Intercept {
		s.add("intercept", host, ByAuthor, "within the plugin option allow_intercept")
	}
	for _, in := range a.Inject {
		from, why := "secrets/"+in.File, ""
		if in.Credential != "" {
			from, why = "the operator's "+in.Credential, "within the plugin option credential"
		}
		s.add("inject", fmt.Sprintf("%s: %s from %s", in.Host, in.Header, from), ByAuthor, why)
	}
	for _, g := range a.Git {
		from, why := "secrets/"+g.File, ""
		if g.Grant != "" {
			from, why = "the operator's "+g.Grant, "within the plugin's grants"
		}
		s.add("git", fmt.Sprintf("%s at %s from %s", g.Repo, g.Host, from), ByAuthor, why)
	}
}

func (s *settingList) limits(j judged, box runner.SandboxSpec, h HostConfig) {
	s.section = "limits"
	r, p := box.Resources.WithDefaults(), box.Task
	cpu := fmt.Sprintf("%.2f CPUs", float64(r.CPUMillis)/1000)
	switch {
	case j.ask.HardCPU:
		s.add("cpu", cpu, ByAuthor, "cpu_hard_limit: the task's share, within cpu_cap")
	case h.CPUCapMillis > 0:
		s.add("cpu", cpu, ByOperator, "plugin option cpu_cap")
	case j.given.Cores != "":
		s.add("cpu", cpu, ByAuthor, "resources.cores")
	default:
		s.add("cpu", cpu, ByDefault, "")
	}
	if p.CPUShares > 0 {
		s.add("cpu weight", strconv.FormatInt(p.CPUShares, 10), ByAuthor, "resources.cpu")
	}
	switch {
	case p.CpusetCpus == "":
	case j.ask.Cpuset != "":
		s.add("cores", p.CpusetCpus, ByAuthor, "cpuset_cpus")
	case j.given.Cores == "":
		s.add("cores", p.CpusetCpus, ByNomad, "those that no task has reserved, at the start")
	default:
		s.add("cores", p.CpusetCpus, ByNomad, "resources.cores")
	}
	s.memory(j.given, r, p)
	switch {
	case j.ask.PidsLimit > 0:
		s.add("processes", strconv.FormatInt(r.PidsLimit, 10), ByAuthor, "pids_limit")
	case h.MaxPids > 0 && h.MaxPids <= runner.DefaultPidsLimit:
		s.add("processes", strconv.FormatInt(r.PidsLimit, 10), ByOperator, "plugin option max_pids")
	default:
		s.add("processes", strconv.FormatInt(r.PidsLimit, 10), ByDefault, "")
	}
	shm := ""
	if p.ShmMiB > 0 {
		shm = fmt.Sprintf("%d MiB", p.ShmMiB)
	}
	s.asked("shm_size", shm, "64 MiB")
	for _, u := range p.Ulimits {
		s.add("ulimit "+u.Name, fmt.Sprintf("%d:%d", u.Soft, u.Hard), ByAuthor, "")
	}
}

func (s *settingList) memory(g given, r runner.Resources, p *runner.TaskProcess) {
	memory := fmt.Sprintf("%d MiB", r.MemoryMiB)
	switch {
	case g.MemoryMiB == 0:
		s.add("memory", memory, ByDefault, "all of the node's: memory_max = -1, and no plugin option max_memory")
	case g.Unlimited:
		s.add("memory", memory, ByOperator, "plugin option max_memory: memory_max = -1")
	case p.MemoryReservationMiB > 0:
		s.add("memory", memory, ByAuthor, "resources.memory_max")
	default:
		s.add("memory", memory, ByAuthor, "resources.memory")
	}
	if p.MemoryReservationMiB > 0 {
		s.add("memory reservation", fmt.Sprintf("%d MiB", p.MemoryReservationMiB), ByAuthor, "resources.memory")
	}
	s.add("swap", "none", ByDefault, "")
}

// listed is an argument list, with quotes around what would not read as one word.
func listed(args []string) string {
	if args == nil {
		return ""
	}
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$,") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return "[" + strings.Join(out, " ") + "]"
}

// on is "true" or nothing: off is every switch's default.
func on(b bool) string {
	if b {
		return "true"
	}
	return ""
}
