package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// planWithin is plan with a deadline.
func (p *Plugin) planWithin(ctx context.Context, b *Backend, tc *driverpb.TaskConfig) (plan, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.plan(ctx, b, tc)
}

// plan judges and translates a task. Nothing is done yet.
func (p *Plugin) plan(ctx context.Context, b *Backend, tc *driverpb.TaskConfig) (plan, error) {
	var c TaskConfig
	var misfit faults
	if err := misfit.read(tc.GetMsgpackDriverConfig(), &c); err != nil {
		return plan{}, fmt.Errorf("task %q: %w: %w", tc.GetName(), runner.ErrInvalid, err)
	}
	p.health.start(p.life)
	found, err := p.health.ready(ctx, enoughFor(c))
	if err != nil {
		return plan{}, err
	}
	host, comp := p.options()
	return planTask(tc, c, host, factsNow(ctx, b, tc, found, comp), misfit.list...)
}

// factsNow is what the node knows as a task is planned.
func factsNow(ctx context.Context, b *Backend, tc *driverpb.TaskConfig, found finding, comp compute) facts {
	dirs := taskDirs(tc)
	fx := facts{
		CPUs: runtime.NumCPU(), TotalMHz: comp.MHz, MemoryMiB: memoryMiB(),
		StageDir:   stageDir(b, RunID(TaskID(tc.GetId())).String()),
		Sockets:    sockets(dirs),
		SharedCPUs: sharedCPUs(tc),
		CheckHost: func(path string) error {
			err := runner.ValidateMountSourceBeside(path, append(b.denied(ctx), nomadFolders(tc.GetAllocDir())...))
			return errors.Join(err, withoutLinks(path))
		},
		CheckDevice: runner.ValidateDevice,
		Secrets:     filesIn(dirs.Secrets()), MeshProxy: isMeshProxy(dirs),
		Why:  map[types.ConfinementClass]string{},
		Read: func(s taskpath.Source) ([]byte, error) { return dirs.Read(s, driver.MaxSetupBytes) },
	}
	for _, cf := range found.Classes {
		if class := types.ConfinementClass(cf.Class); cf.Works {
			fx.Classes = append(fx.Classes, class)
		} else {
			fx.Why[class] = cf.Reason
		}
	}
	return fx
}

// enoughFor tells whether a finding says enough to choose a task's class: the
// one it names works, or there is nothing more to be found out.
func enoughFor(c TaskConfig) func(finding) bool {
	return func(f finding) bool {
		return !f.Pending || slices.ContainsFunc(f.Classes, func(cf runner.ClassFinding) bool {
			return cf.Works && (cf.Class == c.Confinement || c.Runtime == "runsc" && cf.Class == string(types.CC2))
		})
	}
}

// sockets finds what in a task's folders would answer a connect, by the path
// it has in the sandbox: a connect needs no network.
func sockets(d taskpath.Dirs) []string {
	var out []string
	for dir, inside := range map[string]string{d.Secrets(): "/secrets", filepath.Join(d.Shared(), "tmp"): "/alloc/tmp"} {
		for _, e := range entries(dir) {
			if e.Type()&os.ModeSocket != 0 {
				out = append(out, path.Join(inside, e.Name()))
			}
		}
	}
	slices.Sort(out)
	return out
}

// entries lists a folder. What is not there has nothing in it.
func entries(dir string) []os.DirEntry {
	list, _ := os.ReadDir(dir)
	return list
}

// mountMarker is what a Nomad client leaves in a secrets folder that it mounted.
const mountMarker = ".nomad-mount"

// filesIn names what a secrets folder has in it that a job had put there:
// sockets and Nomad's own marker are not.
func filesIn(dir string) []string {
	var out []string
	for _, e := range entries(dir) {
		if e.Type()&os.ModeSocket == 0 && e.Name() != mountMarker {
			out = append(out, e.Name())
		}
	}
	return out
}

// taskDirs are the folders of a task on this node.
func taskDirs(tc *driverpb.TaskConfig) taskpath.Dirs {
	return taskpath.Dirs{Alloc: tc.GetAllocDir(), Name: tc.GetName()}
}
