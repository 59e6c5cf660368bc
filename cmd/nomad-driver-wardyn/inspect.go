package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/docker"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// askNode asks the engine what it would do with a task. Nothing is made, so a
// class counts as there when a runtime for it is registered and the driver's
// own last probe of it did not fail.
func askNode(ctx context.Context, h plugin.HostConfig) (*cli.Node, error) {
	i, err := docker.NewInspector(h.Endpoint)
	if err != nil {
		return nil, err
	}
	s, err := i.Inspect(ctx)
	if err != nil {
		i.Close() // it holds a socket at most
		return nil, err
	}
	view := plugin.NodeView{CPUs: runtime.NumCPU(), MemoryMiB: plugin.MemoryMiB(), MHz: plugin.MHz(), Why: map[types.ConfinementClass]string{}}
	failed := failedClasses(h)
	for _, class := range types.Classes() {
		rt, err := s.Runtime(class, h.Runtimes[class])
		switch why, bad := failed[classRuntime{string(class), rt}]; {
		case err != nil:
			view.Why[class] = err.Error()
		case bad:
			view.Why[class] = why
		default:
			view.Classes = append(view.Classes, class)
		}
	}
	return &cli.Node{
		View: view,
		Check: func(ctx context.Context, r plugin.Review) (faults []plugin.Fault, note string) {
			present, errs := i.CheckSandbox(ctx, s, *r.Sandbox, limits(h))
			for _, err := range errs {
				faults = append(faults, faultOf(err))
			}
			if !present && len(errs) == 0 {
				note = "the image is not on this host; it would be pulled, or loaded, when the task starts"
			}
			return faults, note
		},
		Close: func() { i.Close() },
	}, nil
}

// faultOf is a fault of the runner's, whose text begins with the option.
func faultOf(err error) plugin.Fault {
	field, reason, _ := strings.Cut(strings.Join(strings.Fields(err.Error()), " "), " ")
	return plugin.Fault{Field: strings.TrimSuffix(field, ":"), Reason: reason}
}

type classRuntime struct{ class, runtime string }

// failedClasses are the ones whose last probe by this installation's driver
// failed, with its reason. Who may not read them learns nothing.
func failedClasses(h plugin.HostConfig) map[classRuntime]string {
	out := map[classRuntime]string{}
	kept, err := docker.LastFindings(dataDir(h))
	if err != nil {
		return out
	}
	for _, c := range kept.Findings.Classes {
		if !c.Works {
			out[classRuntime{c.Class, c.Runtime}] = c.Reason
		}
	}
	return out
}

// dataDir is an installation's.
func dataDir(h plugin.HostConfig) string {
	if h.DataDir != "" {
		return h.DataDir
	}
	return datadir.Default
}

// checkInstalled is nil when there is an installation with these options.
func checkInstalled(h plugin.HostConfig) error {
	if _, err := os.Stat(dataDir(h)); err != nil {
		return fmt.Errorf("there is no installation here; -plugin-config says where it is: data_dir: %w", err)
	}
	return nil
}

// limits are the operator's maxima as the runner takes them.
func limits(h plugin.HostConfig) runner.Resources {
	return runner.Resources{CPUMillis: h.CPUCapMillis, MemoryMiB: h.MaxMemoryMiB, PidsLimit: h.MaxPids}
}
