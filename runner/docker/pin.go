package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

var _ runner.CPUPinner = (*Runner)(nil)

// PinCPUs writes the list to the control groups of the sandbox and its
// sidecar: the engine's own update asks the runtime, and gVisor has none. A
// sandbox without a network has no sidecar.
func (r *Runner) PinCPUs(ctx context.Context, ref, cpus string) error {
	err := r.pin(ctx, ref, r.look, cpus)
	if side := r.pin(ctx, sidecarGroup(ref), r.lookAtSidecar(ref), cpus); !errors.Is(side, runner.ErrNotFound) {
		err = errors.Join(err, side)
	}
	return err
}

// pin confines one container, which look finds when its control groups are not
// known yet.
func (r *Runner) pin(ctx context.Context, key string, look func(context.Context, string) (container.InspectResponse, error), cpus string) error {
	if g, ok := r.use.groups.get(key); ok {
		if g.pin(cpus) == nil {
			return nil
		}
		r.use.groups.drop(key) // ended, or another container by now
	}
	c, err := look(ctx, key)
	switch {
	case err != nil:
		return err
	case c.State == nil || !c.State.Running:
		return notRunning("CPUs of", key, c.State)
	}
	g, err := findGroup(c.State.Pid)
	if errors.Is(err, fs.ErrNotExist) { // the engine has not noticed yet
		return fmt.Errorf("CPUs of %s: %w: its process has exited", key, runner.ErrPrecondition)
	}
	if err != nil {
		return wrap("CPUs of "+key, err)
	}
	if err := g.pin(cpus); err != nil {
		return wrap("CPUs of "+key, err)
	}
	r.use.groups.put(key, g)
	return nil
}

// pin writes a list of CPUs to a group that has another.
func (g group) pin(cpus string) error {
	if g.cpuset.path == "" {
		return errors.New("no control group for cpuset")
	}
	file := filepath.Join(g.cpuset.path, "cpuset.cpus")
	if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == cpus {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0) // never made: a folder that is no group has no such file
	if err != nil {
		return err
	}
	_, err = f.WriteString(cpus)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cpuset.cpus = %q: %w", cpus, err)
	}
	return nil
}
