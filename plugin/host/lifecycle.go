package host

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// Info is who the plugin says it is.
func (p *Plugin) Info() Info { return p.info }

// Breaches are the traps the plugin has walked into so far, the first hundred at most.
func (p *Plugin) Breaches() []Breach { return p.breaches.all() }

// Reattach is how another client can take the plugin over after Detach; nil in memory and
// while the plugin is down.
func (p *Plugin) Reattach() *Reattach {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || p.current.reattach == (Reattach{}) {
		return nil
	}
	r := p.current.reattach
	return &r
}

// Pid is the plugin's process id; 0 in memory and while the plugin is down.
func (p *Plugin) Pid() int {
	if r := p.Reattach(); r != nil {
		return r.Pid
	}
	return 0
}

// Launches counts the processes that were brought up to stay: 1, and one more for each crash.
func (p *Plugin) Launches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.launched
}

// Crash ends the plugin process by SIGKILL. A new one is started at once.
func (p *Plugin) Crash(ctx context.Context) error {
	inst, err := p.instance(ctx)
	if err != nil {
		return err
	}
	return inst.crash()
}

// Close ends the plugin as an agent does that stops: Shutdown with two seconds, then go-plugin's
// own end, then SIGKILL. Tasks go on. It returns when the process is gone.
func (p *Plugin) Close() {
	inst := p.letGo()
	if inst == nil {
		return
	}
	if !p.opts.Legacy && !isClosed(inst.exited) {
		p.shutdown(inst)
	}
	inst.kill()
}

func (p *Plugin) shutdown(inst *instance) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.life), shutdownTimeout)
	defer cancel()
	_, err := inst.Driver.Shutdown(ctx, &driverpb.ShutdownRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		p.log.Warn("plugin Shutdown failed", "error", err)
	}
}

// Detach leaves the plugin process as an agent does that crashes: no call, nobody left at its
// standard output and error. The answer finds it again; nil in memory or when it is down.
func (p *Plugin) Detach() *Reattach {
	r := p.Reattach()
	if inst := p.letGo(); inst != nil {
		inst.detach()
	}
	return r
}

// letGo ends the care for the plugin and returns the running process, if there is one; nil on
// every further call.
func (p *Plugin) letGo() *instance {
	p.end()
	p.care.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	inst := p.current
	p.current = nil
	return inst
}

// settle gives a failed call its meaning. Unavailable and Canceled may mean that the plugin
// died; from one that lives they are ordinary errors that cost every caller three seconds.
func (p *Plugin) settle(ctx context.Context, inst *instance, call string, err error) error {
	code := status.Code(err)
	if err == nil || ctx.Err() != nil || (code != codes.Unavailable && code != codes.Canceled) {
		return err
	}
	select {
	case <-inst.exited:
		return ErrPluginGone
	case <-ctx.Done():
		return err
	case <-time.After(p.codeGrace):
		p.breaches.add(TrapCode, call, err.Error())
		return err
	}
}
