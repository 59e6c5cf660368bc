package docker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

var (
	_ runner.UsageReader        = (*Runner)(nil)
	_ runner.SidecarUsageReader = (*Runner)(nil)
)

// Usage samples what the sandbox uses, its sidecar not included. The figures
// are the kernel's own, read from the sandbox's control groups without asking
// the engine, which needs a second for an answer; the engine serves where
// there is no group to be found. ErrPrecondition when nothing runs.
func (r *Runner) Usage(ctx context.Context, ref string) (runner.Usage, error) {
	return r.sample(ctx, ref, r.look)
}

// SidecarUsage samples what the sandbox's sidecar uses, in the same way.
func (r *Runner) SidecarUsage(ctx context.Context, ref string) (runner.Usage, error) {
	return r.sample(ctx, sidecarGroup(ref), r.lookAtSidecar(ref))
}

// lookAtSidecar inspects a sandbox's sidecar.
func (r *Runner) lookAtSidecar(ref string) func(context.Context, string) (container.InspectResponse, error) {
	return func(ctx context.Context, _ string) (container.InspectResponse, error) {
		run, err := RunOf(ref)
		if err != nil {
			return container.InspectResponse{}, err
		}
		id, err := r.netOf(run)
		if err != nil {
			return container.InspectResponse{}, err
		}
		return r.inspectContainer(ctx, ProxyName(id))
	}
}

// sidecarGroup is under what the control groups of a sandbox's sidecar are
// remembered.
func sidecarGroup(ref string) string { return ref + " sidecar" }

// sample reads the use of one container, which look finds when its control
// groups are not known yet.
func (r *Runner) sample(ctx context.Context, ref string, look func(context.Context, string) (container.InspectResponse, error)) (runner.Usage, error) {
	if g, ok := r.use.groups.get(ref); ok {
		if u, err := readUsage(g); err == nil {
			return u, nil
		}
		r.use.groups.drop(ref) // ended, or another container by now
	}
	c, err := look(ctx, ref)
	switch {
	case err != nil:
		return runner.Usage{}, err
	case c.State == nil || !c.State.Running:
		return runner.Usage{}, notRunning("usage of", ref, c.State)
	}
	g, err := findGroup(c.State.Pid)
	if err == nil {
		var u runner.Usage
		if u, err = readUsage(g); err == nil {
			r.use.groups.put(ref, g)
			return u, nil
		}
	}
	r.opts.Log.Debug("usage is asked of the engine", "ref", ref, "reason", err)
	return r.usageByEngine(ctx, c.ID)
}

// readUsage reads a sample from the files of a group.
func readUsage(g group) (runner.Usage, error) {
	u := runner.Usage{Time: time.Now()}
	for _, read := range []func(group, *runner.Usage) error{readCPU, readMemory, readPids} {
		if err := read(g, &u); err != nil {
			return runner.Usage{}, err
		}
	}
	return u, nil
}

func readCPU(g group, u *runner.Usage) error {
	stat, err := g.cpu.table("cpu.stat")
	if err != nil {
		return err
	}
	u.ThrottledPeriods = stat["nr_throttled"]
	if g.cpuacct.v2 {
		u.CPUTotal, u.CPUUser, u.CPUSystem = micro(stat["usage_usec"]), micro(stat["user_usec"]), micro(stat["system_usec"])
		u.ThrottledTime = micro(stat["throttled_usec"])
		return nil
	}
	u.ThrottledTime = time.Duration(stat["throttled_time"])
	for name, d := range map[string]*time.Duration{
		"cpuacct.usage": &u.CPUTotal, "cpuacct.usage_user": &u.CPUUser, "cpuacct.usage_sys": &u.CPUSystem,
	} {
		n, err := g.cpuacct.number(name)
		if err != nil {
			return err
		}
		*d = time.Duration(n)
	}
	return nil
}

func micro(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

func readMemory(g group, u *runner.Usage) error {
	stat, err := g.memory.table("memory.stat")
	if err != nil {
		return err
	}
	splitMemory(stat, u)
	files := [3]string{"memory.current", "memory.peak", "memory.swap.current"}
	if !g.memory.v2 {
		files = [3]string{"memory.usage_in_bytes", "memory.max_usage_in_bytes", ""}
	}
	if u.MemoryUsage, err = g.memory.number(files[0]); err != nil {
		return err
	}
	if n, err := g.memory.number(files[1]); err == nil { // v2 has it from Linux 5.19 on
		u.MemoryMax, u.MemoryMaxKnown = n, true
	}
	if files[2] == "" {
		return nil
	}
	if n, err := g.memory.number(files[2]); err == nil {
		u.MemorySwap, u.SwapKnown = n, true
	}
	return nil
}

// splitMemory reads a memory.stat, of the kernel's or the engine's hand. It
// takes the kernel's lists of pages by what can be done with them: under gVisor
// a task's heap is shared memory, which the kernel's own "rss" leaves out and
// its "cache" includes, though it can be dropped as little as any heap.
func splitMemory(stat map[string]uint64, u *runner.Usage) {
	prefix := ""
	if has(stat, "total_rss") {
		// Version 1. Rows without "total_" leave out the groups below this one.
		prefix = "total_"
		u.MemorySwap, u.SwapKnown = stat["total_swap"], has(stat, "total_swap")
	}
	u.MemoryRSS = stat[prefix+"inactive_anon"] + stat[prefix+"active_anon"] + stat[prefix+"unevictable"]
	u.MemoryCache = stat[prefix+"inactive_file"] + stat[prefix+"active_file"]
}

func has(m map[string]uint64, key string) bool {
	_, ok := m[key]
	return ok
}

func readPids(g group, u *runner.Usage) (err error) {
	u.Pids, err = g.pids.number("pids.current")
	return err
}

// usageByEngine asks the engine for one sample.
func (r *Runner) usageByEngine(ctx context.Context, ref string) (runner.Usage, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	resp, err := r.api.ContainerStats(ctx, ref, false)
	if err != nil {
		return runner.Usage{}, refused("usage of "+ref, err)
	}
	defer resp.Body.Close()
	var s container.StatsResponse
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return runner.Usage{}, wrap("usage of "+ref, err)
	}
	if s.Read.IsZero() || s.Read.Year() <= 1 {
		return runner.Usage{}, wrap("usage of "+ref, errors.New("the engine has no sample"))
	}
	return usageOf(s), nil
}

// usageOf is an engine's sample in the contract's words.
func usageOf(s container.StatsResponse) runner.Usage {
	u := runner.Usage{
		Time:             s.Read,
		CPUTotal:         time.Duration(s.CPUStats.CPUUsage.TotalUsage),
		CPUUser:          time.Duration(s.CPUStats.CPUUsage.UsageInUsermode),
		CPUSystem:        time.Duration(s.CPUStats.CPUUsage.UsageInKernelmode),
		ThrottledPeriods: s.CPUStats.ThrottlingData.ThrottledPeriods,
		ThrottledTime:    time.Duration(s.CPUStats.ThrottlingData.ThrottledTime),
		MemoryUsage:      s.MemoryStats.Usage,
		MemoryMax:        s.MemoryStats.MaxUsage,
		MemoryMaxKnown:   s.MemoryStats.MaxUsage > 0,
		Pids:             s.PidsStats.Current,
	}
	splitMemory(s.MemoryStats.Stats, &u)
	return u
}
