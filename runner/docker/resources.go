package docker

import (
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-units"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

const mib = 1 << 20

// Plugin options that hold the maxima, as error texts name them.
const (
	optionMaxCPU    = "cpu_cap"
	optionMaxMemory = "max_memory"
	optionMaxPids   = "max_pids"
	optionMaxDisk   = "max_disk"
)

// defaultNofile is a limit that programs which close every possible
// descriptor still cope with; the engine's own is often a million and more.
var defaultNofile = runner.Ulimit{Name: "nofile", Soft: 64 << 10, Hard: 512 << 10}

// withDefaults fills the zero fields in; a default never exceeds the maximum.
func withDefaults(r, limit runner.Resources) runner.Resources {
	d := r.WithDefaults()
	lower := func(asked int64, v *int64, limit int64) {
		if asked <= 0 && limit > 0 {
			*v = min(*v, limit)
		}
	}
	lower(r.CPUMillis, &d.CPUMillis, limit.CPUMillis)
	lower(r.MemoryMiB, &d.MemoryMiB, limit.MemoryMiB)
	lower(r.PidsLimit, &d.PidsLimit, limit.PidsLimit)
	d.DiskMiB = max(d.DiskMiB, 0)
	return d
}

// checkMax refuses what exceeds the operator's maxima.
func checkMax(r, limit runner.Resources) (errs []error) {
	check := func(field string, asked, limit int64, unit, option string) {
		if limit > 0 && asked > limit {
			errs = append(errs, fmt.Errorf("%s: %d %s is more than the operator's maximum of %d %s (plugin option %s): %w",
				field, asked, unit, limit, unit, option, runner.ErrDenied))
		}
	}
	check("cpu", r.CPUMillis, limit.CPUMillis, "millis", optionMaxCPU)
	check("memory", r.MemoryMiB, limit.MemoryMiB, "MiB", optionMaxMemory)
	check("pids_limit", r.PidsLimit, limit.PidsLimit, "processes", optionMaxPids)
	check("disk", r.DiskMiB, limit.DiskMiB, "MiB", optionMaxDisk)
	return errs
}

// checkLeast refuses what the engine or the sandbox could not live with.
func checkLeast(r runner.Resources, t runner.TaskProcess) (errs []error) {
	// The engine's own minimum is 6 MiB; init and a program need more.
	if r.MemoryMiB < runner.MinMemoryMiB {
		errs = append(errs, fmt.Errorf("memory: %d MiB is less than the %d MiB a sandbox needs", r.MemoryMiB, runner.MinMemoryMiB))
	}
	if r.PidsLimit < runner.MinPidsLimit {
		errs = append(errs, fmt.Errorf("pids_limit: %d is less than the %d processes and threads a sandbox needs", r.PidsLimit, runner.MinPidsLimit))
	}
	if t.MemoryReservationMiB > r.MemoryMiB {
		errs = append(errs, fmt.Errorf("memory: the reservation of %d MiB is above the limit of %d MiB", t.MemoryReservationMiB, r.MemoryMiB))
	}
	return errs
}

// agentResources translates the caps. r has its defaults filled in.
func agentResources(r runner.Resources, t runner.TaskProcess, class types.ConfinementClass, host hostFacts) container.Resources {
	pids := hostPids(r.PidsLimit, class)
	return container.Resources{
		// The engine refuses more than the host has; as a cap that is the same.
		NanoCPUs:   min(r.CPUMillis, int64(max(host.NCPU, 1))*1000) * 1_000_000,
		CPUShares:  t.CPUShares,
		CpusetCpus: t.CpusetCpus,
		Memory:     r.MemoryMiB * mib,
		// Equal, or the cap would be doubled by swap.
		MemorySwap:        r.MemoryMiB * mib,
		MemoryReservation: t.MemoryReservationMiB * mib,
		PidsLimit:         &pids,
		Ulimits:           ulimits(t.Ulimits, host),
	}
}

// hostPids is the host's limit for a task's pids_limit. Under gVisor it counts
// the sentry's own threads and killing is what it does, so there it only
// guards the host, at a distance.
func hostPids(limit int64, class types.ConfinementClass) int64 {
	if class == types.CC2 {
		return max(512, 3*limit+128)
	}
	return limit
}

// ulimits are the task's, and the substrate's where the task says nothing.
// The substrate's stay within what this host allows.
func ulimits(task []runner.Ulimit, host hostFacts) []*container.Ulimit {
	var out []*container.Ulimit
	named := false
	for _, u := range task {
		out = append(out, &units.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
		named = named || u.Name == defaultNofile.Name
	}
	if !named {
		d := defaultNofile
		if host.MaxNofile > 0 {
			d.Soft, d.Hard = min(d.Soft, host.MaxNofile), min(d.Hard, host.MaxNofile)
		}
		out = append(out, &units.Ulimit{Name: d.Name, Soft: d.Soft, Hard: d.Hard})
	}
	return out
}
