package plugin

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// ask is what a task's author asked for, read and checked against the
// operator's ceilings.
type ask struct {
	Image      string
	Pull       imageAsk
	Argv       []string
	Entrypoint []string // nil keeps the image's
	Idle       bool
	WorkDir    string
	Hostname   string
	TTY, Stdin bool
	Record     bool
	// RecordInside: the sandbox records itself, too.
	RecordInside bool

	Class types.ConfinementClass // "" when none was named
	// ByRuntime: the class was named by the option runtime.
	ByRuntime bool

	Ports []string // labels of the group's ports to be opened

	Allow, Deny, Methods []string
	AllowAll             bool
	FirstUse             types.FirstUseMode
	Learn                bool
	Intercept            []string
	Inject               []injection
	Git                  []gitAsk

	sessionAsk

	Labels map[string]string
	Binds  []bind
	mountAsk
	limitAsk
	Secrets bool // mount /secrets
	Tokens  bool // keep Nomad's and Vault's tokens in the environment

	ReadonlyRootfs bool
	PidsLimit      int64
	ShmMiB         int64
	HardCPU        bool
	CapAdd         []string
	Ulimits        []runner.Ulimit
	Sysctls        map[string]string

	// Notes are sentences for the task's events: what holds although the
	// author wrote something else.
	Notes []string
}

// bind is a folder or file of the task's own, or of the host's, that it wants
// to see elsewhere.
type bind struct {
	Source   taskpath.Source
	Host     string // path of the host, in place of Source
	Target   string
	ReadOnly bool
	// Option and As are the option that a job's mount is in, and how a refusal
	// names it there.
	Option, As string `json:"-"`
	// Yields leaves it out where the image's own working directory is there.
	Yields bool
}

// readAsk reads a task's config. What is wrong with it goes to f.
func readAsk(c TaskConfig, h HostConfig, f *faults) ask {
	a := ask{
		Image: c.Image, WorkDir: c.WorkDir, Hostname: c.Hostname,
		TTY: c.TTY, Stdin: c.Interactive, Idle: c.Idle,
		ReadonlyRootfs: c.ReadonlyRootfs, HardCPU: c.CPUHardLimit,
		Secrets: c.MountSecrets, Tokens: c.ExposeTokens,
	}
	a.readImage(c, h, f)
	a.readProcess(c, f)
	a.readClass(c, h, f)
	if c.Egress != nil {
		a.readEgress(*c.Egress, h, f)
	}
	a.readInject(c.Inject, h, f)
	a.readGit(c.Git, h, f)
	a.readFiles(c, h, f)
	a.checkHeld(f)
	a.readSession(c, h.Sessions, f)
	a.readLimits(c, h, f)
	a.readRecord(c.RecordTaskConfig, h.Record, f)
	a.readLabels(c, f)
	a.readPorts(c, f)
	declinedFaults(f, c.Declined)
	return a
}

// hostname is what a host may be called, "web" or "web.example.org". The engine
// sets what it is given; the names of tasks and jobs have underscores.
var hostname = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// longestHostname is the kernel's limit, less one for the runtimes that count
// the end of the string.
const longestHostname = 63

func (a *ask) readProcess(c TaskConfig, f *faults) {
	a.readEntrypoint(c.Entrypoint, f)
	if c.Command != "" {
		a.Argv = append(a.Argv, c.Command)
	}
	a.Argv = append(a.Argv, c.Args...)
	if c.Idle && (len(a.Argv) > 0 || len(a.Entrypoint) > 0) {
		f.add("idle", true, "an idle task runs no command", "remove idle, or remove command, args and entrypoint")
	}
	for _, arg := range slices.Concat(a.Argv, a.Entrypoint) {
		if strings.ContainsRune(arg, 0) {
			f.add("command, args, entrypoint", arg, "no program can be given a NUL byte", "remove it")
		}
	}
	switch {
	case c.WorkDir != "" && (!path.IsAbs(c.WorkDir) || strings.ContainsRune(c.WorkDir, 0)):
		f.add("work_dir", c.WorkDir, "want an absolute path inside the sandbox", "for instance /workspace")
	case runner.InProc(c.WorkDir):
		f.add("work_dir", c.WorkDir, "below /proc a runtime may have files of the host open", "for instance /workspace")
	}
	if c.Hostname != "" && (!hostname.MatchString(c.Hostname) || len(c.Hostname) > longestHostname) {
		f.add("hostname", c.Hostname, fmt.Sprintf("want letters, digits, hyphens, underscores and dots between them, at most %d in all", longestHostname), "")
	}
}

// readEntrypoint reads a list or one string. "" asks for nothing, and [""] is
// the engine's own way of writing [].
func (a *ask) readEntrypoint(v any, f *faults) {
	if !asks(v) && v != nil {
		if _, list := v.([]any); list {
			a.Entrypoint = []string{}
		}
		return
	}
	var err error
	if a.Entrypoint, err = stringList(v); err != nil {
		f.add("entrypoint", v, err.Error(), "")
	}
	if s, single := v.(string); single && strings.ContainsAny(s, " \t\n") {
		f.add("entrypoint", s, "nothing splits it into words", `write a list, for instance ["/bin/sh", "-c"]`)
	}
}

func (a *ask) readClass(c TaskConfig, h HostConfig, f *faults) {
	a.Class = types.ConfinementClass(c.Confinement)
	if c.Confinement != "" && a.Class.Rank() == 0 {
		a.Class = ""
		f.add("confinement", c.Confinement, "no such class", "write CC1 (container), CC2 (gVisor) or CC3 (microVM)")
		return
	}
	switch c.Runtime {
	case "":
	case "runsc":
		if a.Class != "" && a.Class != types.CC2 {
			f.add("runtime", c.Runtime, "it says CC2, while confinement says "+c.Confinement, "remove the runtime line")
			return
		}
		a.ByRuntime = a.Class == ""
		a.Class = types.CC2
	default:
		f.add("runtime", c.Runtime, "runtimes are chosen by class", `write confinement = "CC1", "CC2" or "CC3"`)
	}
	if a.Class == "" {
		return
	}
	switch field, value := a.classAsked(); {
	case a.Class.Rank() < h.MinClass.Rank():
		f.add(field, value, fmt.Sprintf("the operator's minimum is %s (plugin option confinement.minimum)", h.MinClass), "ask for that class or a stronger one")
	case !h.Offers(a.Class):
		f.add(field, value, fmt.Sprintf("the operator offers %s (plugin option confinement.classes)", classList(h.Classes)), "ask for one of these")
	}
}

// classAsked is the option that names the task's class, and its value.
func (a ask) classAsked() (field, value string) {
	if a.ByRuntime {
		return "runtime", "runsc"
	}
	return "confinement", string(a.Class)
}

func (a *ask) readLabels(c TaskConfig, f *faults) {
	labels, err := stringMap(c.Labels)
	if err != nil {
		f.add("labels", nil, err.Error(), "")
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case k == "":
			f.add("labels", nil, "a label has no name", "")
		case strings.HasPrefix(k, "wardyn."):
			f.add("labels", k, "labels that start with wardyn. are the driver's", "rename it")
		case strings.HasPrefix(k, "com.hashicorp.nomad."):
			f.add("labels", k, "Nomad's docker driver removes containers that carry it", "rename it")
		}
	}
	a.Labels = labels
	for name, v := range map[string]any{"dns_servers": c.DNSServers, "dns_search_domains": c.DNSSearch, "dns_options": c.DNSOptions} {
		if asks(v) {
			a.note(name + " has no effect: the sandbox's resolver is its proxy, which looks up what egress.allow lists")
		}
	}
	slices.Sort(a.Notes)
}

func (a *ask) note(s string) { a.Notes = append(a.Notes, s) }

func classList(cs []types.ConfinementClass) string {
	if len(cs) == 0 {
		return "none"
	}
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = string(c)
	}
	return strings.Join(out, ", ")
}
