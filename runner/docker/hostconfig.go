package docker

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// defaultStopSignal is set where neither task nor image name one: without an
// explicit signal, any signal thaws a paused runc container.
const defaultStopSignal = "SIGTERM"

// containerConfig is what the engine is asked for: the three parts of a
// container-create call.
type containerConfig struct {
	Config     *container.Config
	HostConfig *container.HostConfig
	Networking *network.NetworkingConfig
}

// runNetwork is a run's own network, as the containers on it need to know it.
type runNetwork struct {
	ID   string
	Plan netpool.Plan
}

// agentInput is all that an agent's configuration follows from.
type agentInput struct {
	// Spec has its resources' defaults filled in and has passed checkSpec.
	Spec    runner.SandboxSpec
	Class   types.ConfinementClass
	Runtime string
	Image   imageFacts
	Host    hostFacts
	// Net is nil for a sandbox without a network.
	Net *runNetwork
	// Holder is the container whose network namespace is joined; "" is none,
	// and the agent has its own.
	Holder   string
	Recorder string // host path of wardyn-rec
	Files    string // host folder with resolv.conf and hosts
	Labels   map[string]string
	Seccomp  string // the text of the task's own profile, "" is ours
}

// task is the spec's process, or the zero one for the contract's idle sandbox.
func (in agentInput) task() runner.TaskProcess {
	if in.Spec.Task == nil {
		return runner.TaskProcess{}
	}
	return *in.Spec.Task
}

// agentConfig translates a checked spec into the agent's container. It is the
// only place that decides how an agent is confined; golden files show its
// answer for each class.
func agentConfig(in agentInput) (containerConfig, error) {
	t := in.task()
	argv, err := mainArgv(in.Spec.RunID, in.Spec.Task, in.Image)
	if err != nil {
		return containerConfig{}, err
	}
	if in.Net != nil {
		argv = gated(argv)
	}
	c := &container.Config{
		Hostname:     firstOf(t.Hostname, agentHostname),
		User:         firstOf(t.User, in.Image.User),
		WorkingDir:   firstOf(t.WorkDir, in.Image.WorkDir),
		StopSignal:   firstOf(t.StopSignal, in.Image.StopSignal, defaultStopSignal),
		AttachStdout: true,
		AttachStderr: true,
		AttachStdin:  t.Stdin,
		OpenStdin:    t.Stdin,
		Tty:          t.TTY,
		Env:          withoutImageEnv(sandboxEnv(in.Spec.RunID, in.Spec.Env, in.Net != nil, in.Spec.ProxyConfig.MITMCACertPEM), in.Image.Env),
		Image:        in.Image.ID,
		// Always set, or the image's entrypoint would swallow the command.
		Entrypoint:  argv[:1],
		Cmd:         argv[1:],
		Labels:      mergeLabels(in.Image.Labels, in.Spec.Labels, in.Labels),
		Healthcheck: noHealthcheck(),
	}
	h := hardened(in.Runtime, in.Host)
	h.Resources = agentResources(in.Spec.Resources, t, in.Class, in.Host)
	h.CapAdd = slices.Sorted(slices.Values(t.CapAdd))
	h.Tmpfs = agentTmpfs(t.Tmpfs)
	h.Mounts = agentMounts(in)
	h.ReadonlyRootfs = t.ReadonlyRootfs
	h.ShmSize = max(t.ShmMiB, 0) * mib
	if h.ShmSize == 0 {
		h.ShmSize = 64 * mib
	}
	h.StorageOpt = storageOpt(in.Spec.Resources.DiskMiB, in.Host)
	for k, v := range t.Sysctls {
		h.Sysctls[k] = v
	}
	applyPowers(h, t, in.Seccomp)
	var n *network.NetworkingConfig
	if in.Holder != "" {
		n = joinHolder(c, h, in.Holder)
	} else {
		n = joinNetwork(h, in.Net)
	}
	if inFamily(in.Runtime, familyKrun) {
		giveKVM(h, in.Host)
	}
	return containerConfig{c, h, n}, nil
}

// hardened is what every container of ours has in common, whoever runs in it.
func hardened(runtime string, host hostFacts) *container.HostConfig {
	no := false
	return &container.HostConfig{
		Runtime:       runtime,
		CapDrop:       []string{"ALL"},
		SecurityOpt:   securityOpt(runtime, host),
		MaskedPaths:   maskedPaths(runtime, host),
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		IpcMode:       container.IPCModePrivate,
		CgroupnsMode:  container.CgroupnsModePrivate,
		Sysctls: map[string]string{
			// With IPv6 on, the bridge's own link-local address reaches the host.
			"net.ipv6.conf.all.disable_ipv6":     "1",
			"net.ipv6.conf.default.disable_ipv6": "1",
		},
		Init: &no, // pid 1 is ours
	}
}

// securityOpt never loosens the engine's own profiles: it tightens the filter
// of system calls where an older engine's is wide, names AppArmor's profile
// where the engine has it, and switches SELinux labels off where the runtime
// refuses them.
func securityOpt(runtime string, host hostFacts) []string {
	opts := []string{"no-new-privileges"}
	if inFamily(runtime, sidecarRuntime) && !host.engineClosesIOUring() {
		opts = append(opts, "seccomp="+seccompProfile())
	}
	if host.AppArmor && inFamily(runtime, sidecarRuntime) {
		opts = append(opts, "apparmor=docker-default")
	}
	if host.SELinux && inFamily(runtime, familyGVisor) {
		opts = append(opts, "label=disable")
	}
	return opts
}

// joinNetwork attaches the agent to its run's network and to nothing else, at
// create: connecting later is refused by newer engines.
func joinNetwork(h *container.HostConfig, net *runNetwork) *network.NetworkingConfig {
	if net == nil {
		h.NetworkMode = network.NetworkNone
		return nil
	}
	h.NetworkMode = container.NetworkMode(net.ID)
	// Where the engine's own resolver would forward to, which answers on
	// 127.0.0.11 whatever resolv.conf says.
	h.DNS = []string{net.Plan.Sidecar.String()}
	return endpointOn(net.ID, net.Plan.Agent.String(), "agent")
}

func endpointOn(id, address, alias string) *network.NetworkingConfig {
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		id: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address}, Aliases: []string{alias}},
	}}
}

// rotated bounds a container's log, which is the backlog of gaps and no more.
func rotated(size string, files int) container.LogConfig {
	return container.LogConfig{Type: "json-file", Config: map[string]string{
		"max-size": size, "max-file": strconv.Itoa(files),
	}}
}

// noHealthcheck switches an image's health check off: it would run code on a
// timer that nobody sees.
func noHealthcheck() *container.HealthConfig {
	return &container.HealthConfig{Test: []string{"NONE"}}
}

// storageOpt caps the writable layer where the backend can. Elsewhere disk use
// is not capped here.
func storageOpt(diskMiB int64, host hostFacts) map[string]string {
	if diskMiB <= 0 || !host.DiskQuota {
		return nil
	}
	return map[string]string{"size": fmt.Sprintf("%dm", diskMiB)}
}

// giveKVM hands /dev/kvm to krun, which opens it as the container's user. Kata
// opens it on the host and must not get it.
func giveKVM(h *container.HostConfig, host hostFacts) {
	h.Devices = []container.DeviceMapping{{PathOnHost: "/dev/kvm", PathInContainer: "/dev/kvm", CgroupPermissions: "rwm"}}
	if host.KVMGroup >= 0 {
		h.GroupAdd = []string{strconv.Itoa(host.KVMGroup)}
	}
}
