package plugin

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
)

// compute is the node's, as Nomad counts it.
type compute struct {
	Cores int
	MHz   int64 // of all cores together; 0 when unknown
}

// topologyCompute adds up what the client found out about its node.
func topologyCompute(t *basepb.ClientTopology) compute {
	c := compute{Cores: len(t.GetCores()), MHz: int64(t.GetOverrideTotalCompute())}
	if c.MHz > 0 {
		return c
	}
	for _, core := range t.GetCores() {
		switch {
		case core.GetBaseSpeed() > 0:
			c.MHz += int64(core.GetBaseSpeed())
		case core.GetMaxSpeed() > 0:
			c.MHz += int64(core.GetMaxSpeed())
		default:
			c.MHz += int64(core.GetGuessSpeed())
		}
	}
	return c
}

// localCompute is for clients that send no topology (before 1.7).
func localCompute() compute {
	n := runtime.NumCPU()
	return compute{Cores: n, MHz: int64(n) * cpuMHz()}
}

// ticks turns a percentage of one core into Nomad's MHz.
func (c compute) ticks(percent float64) float64 {
	if c.Cores == 0 {
		return 0
	}
	return percent / 100 * float64(c.MHz) / float64(c.Cores)
}

// cpuMHz is the speed the kernel reports of the first core, 0 when it does not.
func cpuMHz() int64 {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), ":")
		if strings.TrimSpace(name) != "cpu MHz" {
			continue
		}
		if mhz, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			return int64(mhz)
		}
	}
	return 0
}

// memoryMiB is the node's memory.
func memoryMiB() int64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return int64(s.Totalram) * int64(s.Unit) >> 20
}

// MemoryMiB is this machine's memory, and MHz its compute as Nomad counts it,
// 0 when unknown: for commands that judge a task beside a client.
func MemoryMiB() int64 { return memoryMiB() }

// MHz is described with [MemoryMiB].
func MHz() int64 { return localCompute().MHz }
