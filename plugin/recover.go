package plugin

import (
	"context"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// adopt puts a recovered task under this process's care, all parts of it at
// once and beside the client's start: the log pipes have no reader before that
// is done.
func (p *Plugin) adopt(b *Backend, tc *driverpb.TaskConfig, s state) error {
	t := newTask(p.life, b, tc, s)
	lost, err := p.parkedBefore(b, t)
	if err != nil {
		return err
	}
	p.listen(t)
	p.record(b, t)
	p.tasks.put(t)
	if lost {
		return nil // there is nothing to look after
	}
	go func() {
		p.serveAgain(b, t)
		p.keepSidecar(b, t) // it needs the control plane
	}()
	go func() {
		p.carry(b, t, p.resume(b, t))
	}()
	go p.watch(b, t)
	go p.keepDisk(b, t, diskEvery)
	go p.keepCPUs(b, t, cpusEvery)
	go p.keepRecording(b, t)
	return nil
}

// serveAgain gives a recovered task's sidecar its control plane back.
func (p *Plugin) serveAgain(b *Backend, t *task) {
	var pause backoff
	for {
		ctx, cancel := context.WithTimeout(t.ctx, askTimeout)
		_, err := b.Control.Resume(ctx, t.control())
		cancel()
		if t.ctx.Err() != nil {
			if err == nil { // destroyed meanwhile
				err = b.Control.Forget(t.state.Run)
			}
			p.taskLog(t).Debug("the task is gone; its proxy's control plane is not taken up again", "error", err)
			return
		}
		if err == nil {
			return
		}
		if pause.tries == 0 {
			p.taskLog(t).Error("the sandbox's proxy has no control plane; trying on", "error", err)
		}
		if pause.sleep(t.ctx) != nil {
			return
		}
	}
}
