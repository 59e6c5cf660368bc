package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// cpusEvery is how often it is looked which CPUs the client leaves to tasks
	// without cores of their own: they lose one whenever another task reserves it.
	cpusEvery = 3 * time.Second
	// cpusAgain is after how many looks a task is pinned though nothing changed:
	// that may have failed, or it was parked or its sidecar replaced since.
	cpusAgain = 10
)

// effectiveCPUs are the files that tell a control group's CPUs, in cgroup v2 and v1.
var effectiveCPUs = []string{"cpuset.cpus.effective", "cpuset.effective_cpus"}

// sharedCPUs are the CPUs that a task may run on by the control group that the
// client made for it, as "0-2,4": those that no task has reserved and that are not
// kept from tasks altogether. "" when the task has cores of its own, or where
// no group says so.
func sharedCPUs(tc *driverpb.TaskConfig) string {
	l := tc.GetResources().GetLinuxResources()
	if l.GetCpusetCpus() != "" || !filepath.IsAbs(l.GetCpusetCgroup()) {
		return ""
	}
	for _, name := range effectiveCPUs {
		b, err := os.ReadFile(filepath.Join(l.GetCpusetCgroup(), name))
		if cpus := strings.TrimSpace(string(b)); err == nil && cpuset.MatchString(cpus) {
			return cpus
		}
	}
	return ""
}

// ownCPUs are the CPUs of a task: those that it shares, or of them the ones that
// its author names. "" when none is left of these; where nobody says what
// is shared, it is the author's word.
func ownCPUs(author, shared string) string {
	switch {
	case author == "":
		return shared
	case shared == "":
		return author
	}
	return commonCores(author, shared)
}

// checkCPUs tells of CPUs that an author names and that are not the task's to
// have, and refuses it where that is all of them.
func (a *ask) checkCPUs(shared string, f *faults) {
	if a.Cpuset == "" || shared == "" {
		return
	}
	switch got := commonCores(a.Cpuset, shared); {
	case got == "":
		f.add("cpuset_cpus", a.Cpuset, "other tasks have reserved these CPUs, or the node has none such for tasks", "write some of "+shared+", or remove the line")
	case coreCount(got) < coreCount(a.Cpuset):
		a.note(fmt.Sprintf("cpuset_cpus = %q: the task has %s of these CPUs; the others are reserved by other tasks, or the node has none such for tasks", a.Cpuset, got))
	}
}

// keepCPUs keeps a task that shares its CPUs off those that others reserve
// while it runs.
func (p *Plugin) keepCPUs(b *Backend, t *task, every time.Duration) {
	p.keepCPUsOf(t.ctx, b, t, t.state.Ref, every)
}

// keepCPUsOf keeps one of a task's sandboxes off them until ctx or the task is
// over.
func (p *Plugin) keepCPUsOf(ctx context.Context, b *Backend, t *task, ref string, every time.Duration) {
	pinner, ok := b.Runner.(runner.CPUPinner)
	if !ok || !t.state.SharedCPUs {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := false
	for pinned, looks := "", 0; ; looks++ {
		if now := ownCPUs(t.state.CPUs, sharedCPUs(t.config)); now != "" && (now != pinned || looks%cpusAgain == 0) {
			pinned = now // also when it fails: it is tried again later, and not at each look
			err := pinWithin(ctx, pinner, ref, now)
			if err != nil && !told && ctx.Err() == nil && !errors.Is(err, runner.ErrPrecondition) {
				told = true
				p.taskLog(t).Warn("the task may run on CPUs that another has reserved; trying on", "cpus", now, "error", err)
			}
		}
		select {
		case <-tick.C:
		case <-t.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

func pinWithin(ctx context.Context, r runner.CPUPinner, ref, cpus string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return r.PinCPUs(ctx, ref, cpus)
}
