package driver

import (
	"context"
	"fmt"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// exclusive is the workspace volume of a process, "" without one.
func exclusive(t *runner.TaskProcess) string {
	for _, m := range t.Mounts {
		if strings.HasPrefix(m.Volume, workspacePrefix) {
			return m.Volume
		}
	}
	return ""
}

// holdWorkspace claims the workspace volume of a run until its sandbox shows as
// running in the engine's list. labels are the sandbox's; without a workspace in
// them nothing is claimed. A volume that another sandbox uses is refused: two
// agents in one work tree destroy each other's work.
func (d *Docker) holdWorkspace(ctx context.Context, labels map[string]string, run string) (release func(), err error) {
	volume := labels[WorkspaceLabel]
	if volume == "" {
		return func() {}, nil
	}
	release, err = d.slots.claim("volume " + volume)
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", volume, err)
	}
	if err := d.workspaceFree(ctx, volume, run); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// workspaceFree is nil when no living sandbox but that of run uses the volume.
// One that is stopped does not use it: it asks again when it is started.
func (d *Docker) workspaceFree(ctx context.Context, volume, run string) error {
	all, err := d.engine.ListSandboxes(ctx)
	if err != nil {
		return fmt.Errorf("workspace %s: %w", volume, err)
	}
	for _, l := range all {
		if l.Running && l.Labels[WorkspaceLabel] == volume && l.Labels[runLabel] != run {
			return fmt.Errorf("workspace %s is in use by session %q (%s); it is free when that has ended: %w",
				volume, l.Labels[d.opts.Label], l.Ref, ErrInUse)
		}
	}
	return nil
}
