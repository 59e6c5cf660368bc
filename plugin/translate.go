package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// facts is what the node knows at the moment a task starts.
type facts struct {
	CPUs      int   // logical
	TotalMHz  int64 // compute of the node as Nomad counts it; 0 when unknown
	MemoryMiB int64
	// Classes work here now, as probed; Why tells about the others.
	Classes []types.ConfinementClass
	Why     map[types.ConfinementClass]string
	// StageDir is where the run's own mount sources will be bound.
	StageDir string
	// Sockets are sockets of Nomad's in the task's folders, by the path they
	// would have in the sandbox.
	Sockets []string
	// CheckHost judges a path of the host's that a job may mount; nil looks at
	// nothing.
	CheckHost func(path string) error
	// CheckDevice judges what is at the path of a device; nil looks at nothing.
	CheckDevice func(path string) error
	// Read reads a file that the job names.
	Read func(taskpath.Source) ([]byte, error)
	// Secrets are what was put into the task's secrets folder, by name.
	Secrets []string
	// SharedCPUs are those of a task without cores of its own.
	SharedCPUs string
	// MeshProxy: the task is a proxy of Consul's service mesh.
	MeshProxy bool
}

// plan is one task, ready to be handed down.
type plan struct {
	Run uuid.UUID
	// Setup makes the image that the task starts from; nil starts from its own.
	Setup *setupAsk
	Spec  driver.Spec
	// Stage[i] is to be bound at StageDir/i before the sandbox is created.
	Stage []bind
	// Sources say where the secrets are that its sidecar may ask for.
	Sources []source
	Learn   bool
	// Record: outside of the sandbox. Reported: what the sandbox records of itself
	// is kept.
	Record, Reported bool
	// SharedCPUs: it runs on the CPUs that the client leaves to all tasks, of
	// these on those of CPUs where its author names some.
	SharedCPUs bool
	CPUs       string
	// Ports are to be opened before that, too.
	Ports []ports.Port
	// Load is an archive to load the image from; nil pulls it.
	Load  *taskpath.Source
	Notes []string
	// Settings tell people what will hold and who decided it.
	Settings []Setting `json:"-"`
}

// planTask judges and translates a task: everything that is wrong with it is
// in the one error, after what was found in it before, and nothing has been done
// yet. It is pure.
func planTask(t *driverpb.TaskConfig, c TaskConfig, h HostConfig, fx facts, before ...Fault) (plan, error) {
	j, f := judgeTask(t, c, h, fx)
	if err := f.after(before).err(); err != nil {
		return plan{}, err
	}
	pl := translate(t, j.ask, j.given, j.class, h, fx)
	pl.SharedCPUs, pl.CPUs = fx.SharedCPUs != "" && j.given.Cores == "", j.ask.Cpuset
	pl.Settings = settings(t, j, pl, h)
	return pl, nil
}

// judged is a task that was read: what its author asked for, what Nomad adds,
// and the class that comes of it.
type judged struct {
	ask   ask
	given given
	class types.ConfinementClass
}

// judgeTask reads a task and finds everything that is wrong with it.
func judgeTask(t *driverpb.TaskConfig, c TaskConfig, h HostConfig, fx facts) (judged, *faults) {
	f := &faults{what: fmt.Sprintf("task %q", t.GetName())}
	a := readAsk(c, h, f)
	checkVolumeOwner(t, a, f)
	checkHostPaths(a, fx.CheckHost, f)
	admitCredentials(t.GetNamespace(), t.GetJobId(), a, h, f)
	a.giveWay(t.GetMounts())
	a.noteNetwork(t)
	a.checkKept(t, f)
	checkSnapshot(t, a, f)
	a.Init.load(fx.Read, f)
	if a.Setup != nil {
		a.Setup.load(fx.Read, f)
	}
	g := readGiven(t, a, h, f)
	checkDevices(a, g, fx.CheckDevice, f)
	if fx.MeshProxy {
		f.list = append(f.list, MeshProxyFault())
	}
	class := chooseClass(a, h, fx, f)
	checkPowers(a, g, class, f)
	a.checkCPUs(fx.SharedCPUs, f)
	return judged{ask: a, given: g, class: class}, f
}

// chooseClass is the class a task runs under: the one it names, else the
// strongest that the operator offers and that works here. A class is never
// replaced by a weaker one.
func chooseClass(a ask, h HostConfig, fx facts, f *faults) types.ConfinementClass {
	works := func(c types.ConfinementClass) bool { return slices.Contains(fx.Classes, c) }
	if a.Class != "" {
		if !works(a.Class) {
			reason := fx.Why[a.Class]
			if reason == "" {
				reason = "no runtime of this node provides it"
			}
			field, value := a.classAsked()
			f.add(field, value, reason, "here works: "+classList(fx.Classes))
		}
		return a.Class
	}
	var best types.ConfinementClass
	for _, c := range types.Classes() {
		if c.Rank() >= h.MinClass.Rank() && h.Offers(c) && works(c) {
			best = c
		}
	}
	if best == "" {
		f.add("confinement", nil, "no class that the operator offers works on this node", "here works: "+classList(fx.Classes))
	}
	return best
}

// translate builds the value that is handed down. Nothing is judged here.
func translate(t *driverpb.TaskConfig, a ask, g given, class types.ConfinementClass, h HostConfig, fx facts) plan {
	run := RunID(TaskID(t.GetId()))
	sources := append(injectSources(run, a), gitSources(run, SessionID(t), a)...)
	if !a.Secrets && slices.ContainsFunc(fx.Secrets, isForTask(sources)) {
		a.note("The task's secrets folder holds files and is not mounted; mount_secrets = true mounts it, if the operator allows it (plugin option allow_secrets_dir)")
	}
	a.noteEnv(t.GetEnv())
	if len(a.Sysctls) > 0 && class == types.CC2 {
		a.note("sysctl has no effect under CC2: gVisor's network keeps settings of its own")
	}
	if user, _, _ := strings.Cut(t.GetUser(), ":"); len(a.CapAdd) > 0 && user != "" && user != "root" && user != "0" {
		a.note(fmt.Sprintf("cap_add has no effect for the user %s: only processes of root have capabilities, and none gains any later", user))
	}
	a.noteGPU(g, h.Runtimes[class])
	mounts, stage := mountsOf(t, a, g, class, fx)
	pl := plan{
		Run:   run,
		Setup: a.Setup,
		Spec: driver.Spec{
			Name:      t.GetName(),
			Image:     a.Image,
			SessionID: SessionID(t),
			Env:       g.Env,
			Sandbox: runner.SandboxSpec{
				RunID:            run,
				ConfinementClass: class,
				ProxyConfig:      proxyConfig(a, class, h, sources),
				Resources: runner.Resources{
					CPUMillis: cpuCap(a, g, h, fx),
					MemoryMiB: memoryCap(g, fx),
					PidsLimit: pidsCap(a, h),
					DiskMiB:   a.DiskMiB,
				},
				Labels:      labels(t, a, h),
				Interactive: a.Idle,
				Task:        process(t, a, g, mounts, fx),
			},
		},
		Stage:   stage,
		Sources: sources,
		Learn:   a.Learn,
		Record:  a.Record, Reported: a.Record || a.RecordInside,
		Ports: g.Ports,
		Load:  a.Pull.Load,
		Notes: a.Notes,
	}
	applySession(&pl.Spec, t, a)
	return pl
}

// proxyConfig is the sidecar's half, without what is made anew for each run.
func proxyConfig(a ask, class types.ConfinementClass, h HostConfig, sources []source) runner.ProxyConfig {
	return runner.ProxyConfig{
		Policy:    policy(a, class),
		Injection: grants(sources),
		GitGrants: gitGrants(sources),
		MITMHosts: slices.Compact(slices.Sorted(slices.Values(slices.Concat(h.Intercept, a.Intercept)))),
	}
}

func policy(a ask, class types.ConfinementClass) types.RunPolicySpec {
	return types.RunPolicySpec{
		AllowedDomains:      a.Allow,
		DeniedDomains:       a.Deny,
		AllowAllEgress:      a.AllowAll,
		FirstUseApproval:    a.FirstUse.Normalize(),
		AllowedMethods:      a.Methods,
		MinConfinementClass: class,
	}
}

func process(t *driverpb.TaskConfig, a ask, g given, mounts []runner.TaskMount, fx facts) *runner.TaskProcess {
	return &runner.TaskProcess{
		Argv:           a.Argv,
		Entrypoint:     a.Entrypoint,
		Image:          a.Pull.Source,
		Idle:           a.Idle,
		Recorded:       a.RecordInside,
		User:           t.GetUser(),
		WorkDir:        a.WorkDir,
		Hostname:       a.Hostname,
		TTY:            a.TTY,
		Stdin:          a.Stdin,
		Mounts:         mounts,
		Tmpfs:          append([]runner.Tmpfs{{Target: "/alloc/logs", SizeMiB: 1, Mode: 0o555, ReadOnly: true}}, a.Tmpfs...),
		ReadonlyRootfs: a.ReadonlyRootfs,
		ShmMiB:         a.ShmMiB,
		CapAdd:         a.CapAdd,
		Sysctls:        a.Sysctls,
		Ulimits:        a.Ulimits,
		CPUShares:      cpuShares(g, fx),
		CpusetCpus:     cmp.Or(g.Cores, ownCPUs(a.Cpuset, fx.SharedCPUs)),
		Devices:        slices.Concat(a.Devices, g.Devices),
		GroupAdd:       a.Groups,
		AppArmor:       a.AppArmor,
		SeccompFile:    a.SeccompFile,
		OOMScoreAdj:    a.OOMScoreAdj,
		Log:            a.Log,
		NoNetwork:      a.NoNetwork,
		StopSignal:     a.StopSignal,

		MemoryReservationMiB: g.SoftMiB,
	}
}

// labels are the author's, and ours that say whose sandbox it is.
func labels(t *driverpb.TaskConfig, a ask, h HostConfig) map[string]string {
	out := extraLabels(t, h.Limits)
	maps.Copy(out, a.Labels)
	for k, v := range map[string]string{
		"wardyn.namespace": t.GetNamespace(),
		"wardyn.job":       t.GetJobId(),
		"wardyn.group":     t.GetTaskGroupName(),
		"wardyn.task":      t.GetName(),
		"wardyn.alloc-id":  t.GetAllocId(),
	} {
		out[k] = v
	}
	return out
}
