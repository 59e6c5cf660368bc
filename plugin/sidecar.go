package plugin

import (
	"context"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// keepSidecar has the runner look after a task's sidecar for as long as the
// task lives. What happened to it is in the task's events, and where the
// sandbox had to be stopped, in its exit too.
func (p *Plugin) keepSidecar(b *Backend, t *task) { p.keepSidecarOf(t.ctx, b, t, t.state.Ref) }

// keepSidecarOf is keepSidecar for one of the task's sandboxes, until ctx ends.
func (p *Plugin) keepSidecarOf(ctx context.Context, b *Backend, t *task, ref string) {
	k, ok := b.Runner.(runner.SidecarKeeper)
	if !ok {
		return
	}
	err := k.KeepSidecar(ctx, ref, func(d runner.SidecarDeath) {
		if d.Err == nil {
			p.taskLog(t).Warn("sidecar restarted", "cause", d.Cause)
			p.events.emit(t.config, fmt.Sprintf("Sidecar restarted: the sandbox's proxy had ended (%s); connections through it were cut", d.Cause),
				"sidecar", "restarted")
			return
		}
		why := fmt.Sprintf("the sandbox's proxy ended (%s) and could not be replaced: %v", d.Cause, d.Err)
		p.taskLog(t).Error("stopping a sandbox without its proxy", "error", why)
		t.blame(why)
		p.events.emit(t.config, "Sandbox stopped: "+why, "sidecar", "lost")
	})
	if err != nil && ctx.Err() == nil {
		p.taskLog(t).Error("the sandbox's proxy is no longer looked after", "error", err)
	}
}

// blame says why the driver is about to end the task, before it does: an exit
// that comes of it is not the task's own.
func (t *task) blame(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blamed = why
}

// judged adds to an exit what the driver is to blame for.
func (t *task) judged(o outcome) outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.blamed != "" && o.Err == "" {
		o.Err = t.blamed
	}
	return o
}
