package docker

import (
	"context"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

// sidecarFollows ends the sidecar of a sandbox when the main process does, for
// one that is being stopped for good: an engine takes long to clear a
// container's networks away, and does so for both side by side that way. It is
// a matter of time only; what is missed here is done when the sandbox is
// removed. stop ends the watching and returns when it is over.
func (r *Runner) sidecarFollows(ctx context.Context, ref string, agent container.InspectResponse) (stop func()) {
	run, err := RunOf(ref)
	if err != nil || agent.HostConfig == nil || agent.HostConfig.NetworkMode.IsNone() {
		return func() {}
	}
	process, err := unix.PidfdOpen(agent.State.Pid, 0)
	if err != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer unix.Close(process)
		if !ended(ctx, process) {
			return
		}
		r.use.ending.add(ref)
		id, err := r.netOf(run)
		if err != nil {
			return
		}
		// Of its own: the stop is over when the engine has noticed.
		kctx, cancel := call(context.WithoutCancel(ctx))
		defer cancel()
		c, err := r.look(kctx, ProxyName(id))
		if err == nil && c.State.Running && !c.State.Paused {
			if lerr := r.leaveEgress(kctx, c.ID); lerr != nil {
				r.opts.Log.Warn("sidecar is ended on the egress network", "ref", ref, "error", lerr)
			}
			err = r.api.ContainerKill(kctx, c.ID, defaultStopSignal)
		}
		if err != nil {
			r.opts.Log.Debug("the sidecar of a stopped sandbox was not ended yet", "ref", ref, "error", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
