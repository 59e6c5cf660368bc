package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Draft is a task of a job file, which nobody has placed on a node yet.
type Draft struct {
	Job, Namespace, Group, Name string
	User                        string
	// Config is its config block as a parser of job files leaves it.
	Config map[string]any
	// Env is its whole environment, Nomad's own variables included, as far as
	// it is known before placement. OpenEnv says that more comes with it, by a
	// template for instance.
	Env     map[string]string
	OpenEnv bool
	// Tokens are the variables that workload identities are put into beside Env;
	// what is in them no job file shows.
	Tokens []string
	// Secrets are what a client puts into its secrets folder, by name, but for
	// what becomes its environment.
	Secrets []string
	// Dispatched: the job gets more meta at each dispatch.
	Dispatched bool
	// CPU is in MHz, memory in MiB; MemoryMax 0 is unset and -1 no limit.
	CPU, Memory, MemoryMax int64
	Cores                  string // "0-1"; "" reserves none
	// OpenPorts: its group may have more ports than are listed.
	OpenPorts bool
	// Bridged: its group has a network of its own, "bridge" or "cni/...". DNS: with
	// a dns block.
	Bridged, DNS bool
	// Ports are those of its group, Mounts its volume_mount blocks, Devices the
	// names of devices that it asks for.
	Ports   []DraftPort
	Mounts  []DraftMount
	Devices []string
}

// DraftPort is a port that a scheduler has yet to place. Static 0 is any, and
// To 0 the same inside the task.
type DraftPort struct {
	Label      string
	Static, To int
}

// DraftMount is a mount of a volume of the client's.
type DraftMount struct {
	Target      string
	ReadOnly    bool
	Propagation string
}

// NodeView is what is known of the node that a Draft is judged for.
type NodeView struct {
	CPUs      int
	MHz       int64 // of all CPUs together; 0 when unknown
	MemoryMiB int64
	// Unasked: nobody asked the node, and Classes are all there are.
	Unasked bool
	// Classes that a task can get, with the reason in Why where one cannot.
	Classes []types.ConfinementClass
	Why     map[types.ConfinementClass]string
}

// Review is what can be said of a Draft.
type Review struct {
	// Faults is all that StartTask would refuse it for.
	Faults []Fault
	// Unchecked are options that depend on facts of a node or on variables that
	// only the client knows.
	Unchecked []string
	// Notes become events when the task starts.
	Notes []string
	// Allow is egress.allow. ShutIn: nothing at all can be reached from the task,
	// though it has a network.
	Allow  []string
	ShutIn bool
	// Settings is what would hold for it; nil with faults.
	Settings []Setting
	// Sandbox is what the runner would be asked for; nil with faults, and where
	// something is unchecked.
	Sandbox *runner.SandboxSpec
}

// ReviewTask judges a task as StartTask would, and by the same code. It touches
// nothing.
func ReviewTask(d Draft, h HostConfig, n NodeView) Review {
	f := &faults{what: fmt.Sprintf("task %q", d.Name)}
	o, err := readOptions(taskSpec(), d.Config, d.variables(), f)
	var c TaskConfig
	var misfit faults
	if err == nil {
		err = misfit.read(o.data, &c)
	}
	if err != nil {
		f.add("config", nil, err.Error(), "")
		return Review{Faults: f.list, Unchecked: o.open}
	}
	t := d.taskConfig(n, h)
	fx := n.facts()
	fx.Secrets = d.Secrets
	j, values := judgeTask(t, c, h, fx)
	if d.OpenPorts && slices.ContainsFunc(j.ask.Ports, d.lacksPort) {
		o.open = append(o.open, "ports")
	}
	// What could not be decoded was left out, and has been complained of; what
	// could not be known may well be right.
	settled := slices.Concat(o.open, o.wrong)
	for _, one := range values.after(misfit.list).list {
		if !isAbout(one.Field, settled) {
			f.list = append(f.list, one)
		}
	}
	out := Review{Faults: f.list, Unchecked: o.open, Notes: j.ask.Notes, Allow: j.ask.Allow, ShutIn: j.ask.shutIn() && !isAbout("egress", o.open)}
	if len(f.list) == 0 {
		pl := translate(t, j.ask, j.given, j.class, h, fx)
		out.Notes = pl.Notes
		out.Settings = settings(t, j, pl, h)
		if n.Unasked && j.ask.Class == "" {
			out.Settings[0].Value = "the strongest"
		}
		if len(o.open) == 0 {
			out.Sandbox = &pl.Spec.Sandbox
			out.Sandbox.Image, out.Sandbox.Env = pl.Spec.Image, pl.Spec.Env
		}
	}
	return out
}

func (d Draft) lacksPort(label string) bool {
	return !slices.ContainsFunc(d.Ports, func(p DraftPort) bool { return p.Label == label })
}

// taskConfig is the draft as a client would send it.
func (d Draft) taskConfig(n NodeView, h HostConfig) *driverpb.TaskConfig {
	share := 0.0
	if n.MHz > 0 {
		share = min(float64(d.CPU)/float64(n.MHz), 1)
	}
	t := &driverpb.TaskConfig{
		Id: "draft/" + d.Name, AllocId: "draft", AllocDir: draftDir,
		Name: d.Name, TaskGroupName: d.Group, JobName: d.Job, JobId: d.Job, Namespace: d.Namespace,
		User: d.User, Env: d.environment(),
		Resources: &driverpb.Resources{
			AllocatedResources: &driverpb.AllocatedTaskResources{
				Cpu:    &driverpb.AllocatedCpuResources{CpuShares: d.CPU},
				Memory: &driverpb.AllocatedMemoryResources{MemoryMb: d.Memory, MemoryMaxMb: d.MemoryMax},
			},
			LinuxResources: &driverpb.LinuxResources{CpuShares: d.CPU, PercentTicks: share, CpusetCpus: d.Cores},
		},
	}
	for _, p := range d.Ports {
		t.Resources.Ports = append(t.Resources.Ports, &driverpb.PortMapping{
			Label: p.Label, Value: int32(cmp.Or(p.Static, somePort(h.Ports))), To: int32(p.To), HostIp: draftHost,
		})
	}
	if d.Bridged {
		t.NetworkIsolationSpec = &driverpb.NetworkIsolationSpec{Mode: driverpb.NetworkIsolationSpec_GROUP, Path: draftNamespace}
	}
	if d.DNS {
		t.Dns = &driverpb.DNSConfig{Servers: []string{draftHost}}
	}
	for _, m := range d.Mounts {
		t.Mounts = append(t.Mounts, &driverpb.Mount{TaskPath: m.Target, HostPath: draftVolume, Readonly: m.ReadOnly, PropagationMode: m.Propagation})
	}
	for _, name := range d.Devices {
		t.Devices = append(t.Devices, &driverpb.Device{HostPath: someDevice(name, h.Limits)})
	}
	return t
}

// somePort stands for a port that a scheduler picks: one of its usual range
// that the operator opens, else any that is open.
func somePort(open []portRange) int {
	const first, last = 20000, 32000
	some := first
	for _, r := range open {
		if from := max(r.first, first); from <= min(r.last, last) {
			return from
		}
		some = r.first
	}
	return max(some, 1)
}

// someDevice stands for what a device plugin reserves, which nobody knows before
// placement: one that the operator lets tasks have, else the name it is asked for by.
func someDevice(name string, r LimitRules) string {
	for _, p := range r.Devices {
		return strings.ReplaceAll(p, "*", "0")
	}
	return name
}

// draftDir stands for the directory of an allocation that does not exist.
const draftDir = "/alloc-dir"

// draftHost and the others stand for what a client would put there.
const draftHost, draftVolume, draftNamespace = "127.0.0.1", "a volume of the client", "/the group's namespace"

func (n NodeView) facts() facts {
	return facts{
		CPUs: n.CPUs, TotalMHz: n.MHz, MemoryMiB: n.MemoryMiB,
		Classes: n.Classes, Why: n.Why, StageDir: draftDir + "/stage",
	}
}
