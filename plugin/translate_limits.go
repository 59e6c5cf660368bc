package plugin

import "github.com/wardyn/nomad-driver-wardyn/runner"

// defaultCPUCap is the hard cap of a task when the operator sets none.
const defaultCPUCap = runner.DefaultCPUMillis

// cpuCap is the hard cap in thousandths of a CPU: the operator's, or where
// there is none the default, at least the cores that were reserved. A task may
// narrow it to its own share.
func cpuCap(a ask, g given, h HostConfig, fx facts) int64 {
	most := h.CPUCapMillis
	if most == 0 {
		most = max(defaultCPUCap, int64(coreCount(g.Cores))*1000)
	}
	if a.HardCPU && g.CPUShare > 0 && fx.CPUs > 0 {
		most = min(most, max(int64(g.CPUShare*float64(fx.CPUs)*1000), 10))
	}
	if fx.CPUs > 0 {
		most = min(most, int64(fx.CPUs)*1000)
	}
	return most
}

func memoryCap(g given, fx facts) int64 {
	if g.MemoryMiB == 0 {
		return fx.MemoryMiB
	}
	return g.MemoryMiB
}

// pidsCap is the task's limit, or the default brought under the operator's.
func pidsCap(a ask, h HostConfig) int64 {
	if a.PidsLimit == 0 && h.MaxPids > 0 {
		return min(runner.DefaultPidsLimit, h.MaxPids)
	}
	return a.PidsLimit
}

// The range of the kernel's CPU weight.
const minShares, maxShares = 2, 1 << 18

// cpuShares is the task's weight. Nomad counts in MHz, of which a large node
// has more than the kernel's scale goes up to; there all tasks are scaled down
// alike.
func cpuShares(g given, fx facts) int64 {
	s := g.CPUShares
	if fx.TotalMHz > maxShares {
		s = int64(float64(s) * maxShares / float64(fx.TotalMHz))
	}
	if s == 0 {
		return 0
	}
	return min(max(s, minShares), maxShares)
}
