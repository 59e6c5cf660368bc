package host

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

const mebibyte = 1 << 20

func toTaskConfig(c TaskConfig) *driverpb.TaskConfig {
	out := &driverpb.TaskConfig{
		Id:                   c.ID,
		Name:                 c.Name,
		TaskGroupName:        c.GroupName,
		JobName:              c.JobName,
		JobId:                c.JobID,
		Namespace:            c.Namespace,
		AllocId:              c.AllocID,
		NodeName:             c.NodeName,
		NodeId:               c.NodeID,
		MsgpackDriverConfig:  c.DriverConfig,
		Env:                  c.Env,
		DeviceEnv:            c.DeviceEnv,
		Resources:            toResources(c.Resources),
		User:                 c.User,
		AllocDir:             c.AllocDir,
		StdoutPath:           c.StdoutPath,
		StderrPath:           c.StderrPath,
		NetworkIsolationSpec: toNetwork(c.Network),
	}
	for _, m := range c.Mounts {
		out.Mounts = append(out.Mounts, &driverpb.Mount{
			TaskPath: m.TaskPath, HostPath: m.HostPath, Readonly: m.ReadOnly,
			PropagationMode: m.PropagationMode, SelinuxLabel: m.SELinuxLabel, RequestName: m.RequestName,
		})
	}
	for _, d := range c.Devices {
		out.Devices = append(out.Devices, &driverpb.Device{
			TaskPath: d.TaskPath, HostPath: d.HostPath, CgroupPermissions: d.Permissions,
		})
	}
	if c.DNS != nil {
		out.Dns = &driverpb.DNSConfig{Servers: c.DNS.Servers, Searches: c.DNS.Searches, Options: c.DNS.Options}
	}
	return out
}

// toResources fills both halves as a client does: what was asked for, and the same as Linux
// limits. A maximum of -1 does not show in the limit; the driver has to look for it.
func toResources(r Resources) *driverpb.Resources {
	out := &driverpb.Resources{
		AllocatedResources: &driverpb.AllocatedTaskResources{
			Cpu:    &driverpb.AllocatedCpuResources{CpuShares: r.CPU},
			Memory: &driverpb.AllocatedMemoryResources{MemoryMb: r.MemoryMB, MemoryMaxMb: r.MemoryMaxMB},
		},
		LinuxResources: &driverpb.LinuxResources{
			CpuShares:        r.CPU,
			MemoryLimitBytes: max(r.MemoryMB, r.MemoryMaxMB) * mebibyte,
			CpusetCpus:       r.Cores,
			CpusetCgroup:     r.CPUSetCgroup,
			PercentTicks:     r.CPUFraction,
		},
	}
	for _, p := range r.Ports {
		out.Ports = append(out.Ports, &driverpb.PortMapping{Label: p.Label, Value: p.Value, To: p.To, HostIp: p.HostIP})
	}
	return out
}

func toNetwork(n *NetworkIsolation) *driverpb.NetworkIsolationSpec {
	if n == nil {
		return nil
	}
	out := &driverpb.NetworkIsolationSpec{
		Mode: driverpb.NetworkIsolationSpec_NetworkIsolationMode(n.Mode), Path: n.Path, Labels: n.Labels,
	}
	if n.HostsHostname != "" || n.HostsAddress != "" {
		out.HostsConfig = &driverpb.HostsConfig{Hostname: n.HostsHostname, Address: n.HostsAddress}
	}
	return out
}

func fromNetwork(n *driverpb.NetworkIsolationSpec) *NetworkIsolation {
	if n == nil {
		return nil
	}
	return &NetworkIsolation{
		Mode: NetworkMode(n.GetMode()), Path: n.GetPath(), Labels: n.GetLabels(),
		HostsHostname: n.GetHostsConfig().GetHostname(), HostsAddress: n.GetHostsConfig().GetAddress(),
	}
}

func toHandle(h TaskHandle) *driverpb.TaskHandle {
	return &driverpb.TaskHandle{
		Version: int32(h.Version), Config: toTaskConfig(h.Config),
		State: driverpb.TaskState(h.State), DriverState: h.DriverState,
	}
}

func fromOverride(o *driverpb.NetworkOverride) *NetworkOverride {
	if o == nil {
		return nil
	}
	return &NetworkOverride{PortMap: o.GetPortMap(), Addr: o.GetAddr(), AutoAdvertise: o.GetAutoAdvertise()}
}

func fromExit(r *driverpb.ExitResult, err string) ExitResult {
	return ExitResult{
		ExitCode: int(r.GetExitCode()), Signal: int(r.GetSignal()), OOMKilled: r.GetOomKilled(), Err: err,
	}
}

func fromStatus(r *driverpb.InspectTaskResponse) TaskStatus {
	t := r.GetTask()
	return TaskStatus{
		ID: t.GetId(), Name: t.GetName(), State: TaskState(t.GetState()),
		StartedAt: fromTime(t.GetStartedAt()), CompletedAt: fromTime(t.GetCompletedAt()),
		Exit: fromExit(t.GetResult(), ""), Attributes: r.GetDriver().GetAttributes(),
		Network: fromOverride(r.GetNetworkOverride()),
	}
}

// fromTime gives Go's zero time for "not yet", however that was spelled.
func fromTime(t *timestamppb.Timestamp) time.Time {
	if t == nil || t.AsTime().IsZero() {
		return time.Time{}
	}
	return t.AsTime()
}

func fromUsage(s *driverpb.TaskStats) TaskUsage {
	out := TaskUsage{
		Time: fromTime(s.GetTimestamp()),
		CPU:  fromCPU(s.GetAggResourceUsage().GetCpu()), Memory: fromMemory(s.GetAggResourceUsage().GetMemory()),
	}
	if len(s.GetResourceUsageByPid()) > 0 {
		out.Pids = make(map[string]PidUsage, len(s.GetResourceUsageByPid()))
		for pid, u := range s.GetResourceUsageByPid() {
			out.Pids[pid] = PidUsage{CPU: fromCPU(u.GetCpu()), Memory: fromMemory(u.GetMemory())}
		}
	}
	return out
}

func fromCPU(c *driverpb.CPUUsage) CPUUsage {
	out := CPUUsage{
		System: c.GetSystemMode(), User: c.GetUserMode(), Percent: c.GetPercent(), TotalTicks: c.GetTotalTicks(),
		ThrottledPeriods: c.GetThrottledPeriods(), ThrottledTime: time.Duration(c.GetThrottledTime()),
	}
	for _, f := range c.GetMeasuredFields() {
		out.Measured = append(out.Measured, f.String())
	}
	return out
}

func fromMemory(m *driverpb.MemoryUsage) MemoryUsage {
	out := MemoryUsage{
		RSS: m.GetRss(), Cache: m.GetCache(), Usage: m.GetUsage(), MaxUsage: m.GetMaxUsage(), Swap: m.GetSwap(),
		KernelUsage: m.GetKernelUsage(), KernelMaxUsage: m.GetKernelMaxUsage(),
	}
	for _, f := range m.GetMeasuredFields() {
		out.Measured = append(out.Measured, f.String())
	}
	return out
}

func fromEvent(e *driverpb.DriverTaskEvent) Event {
	return Event{
		TaskID: e.GetTaskId(), AllocID: e.GetAllocId(), TaskName: e.GetTaskName(),
		Time: fromTime(e.GetTimestamp()), Message: e.GetMessage(), Annotations: e.GetAnnotations(),
	}
}

func fromCapabilities(c *driverpb.DriverCapabilities) Capabilities {
	out := Capabilities{
		SendSignals: c.GetSendSignals(), Exec: c.GetExec(), FSIsolation: FSIsolation(c.GetFsIsolation()),
		MustCreateNetwork:    c.GetMustCreateNetwork(),
		NoMounts:             c.GetMountConfigs() == driverpb.DriverCapabilities_NO_MOUNTS,
		DisableLogCollection: c.GetDisableLogCollection(),
		DynamicWorkloadUsers: c.GetDynamicWorkloadUsers(),
	}
	for _, m := range c.GetNetworkIsolationModes() {
		out.NetworkModes = append(out.NetworkModes, NetworkMode(m))
	}
	return out
}
