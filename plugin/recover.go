package plugin

import (
	"context"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// adopt puts a recovered task under this process's care.
func (p *Plugin) adopt(tc *driverpb.TaskConfig, s state) *task {
	t := newTask(p.life, tc, s)
	t.denials = newDenials(func(m string, about ...string) { p.events.emit(tc, m, about...) })
	p.tasks.put(t)
	return t
}

// resume brings a recovered task's surroundings back, all at once and beside
// the client's start: the log pipes have no reader before that is done.
func (p *Plugin) resume(b *Backend, t *task) {
	log := p.taskLog(t)
	go retry(t.ctx, func(ctx context.Context) error {
		_, err := b.Control.Resume(ctx, t.control())
		return err
	}, func(err error) { log.Error("the sandbox's proxy has no control plane; trying on", "error", err) })
	go func() {
		defer close(t.followed)
		p.follow(b, t)
	}()
	p.watch(b, t)
}

// follow takes a recovered task's output up again.
func (p *Plugin) follow(b *Backend, t *task) {
	reader, ok := b.Runner.(runner.OutputReader)
	if !ok {
		p.taskLog(t).Error("this runner's output cannot be followed after a restart")
		return
	}
	retry(t.ctx, func(ctx context.Context) error {
		lost, err := b.Outputs.Resume(ctx, t.run, reader)
		if lost > 0 {
			p.events.emit(t.config, fmt.Sprintf("%d bytes of the task's output were lost while the driver was down", lost))
		}
		return err
	}, func(err error) {
		p.taskLog(t).Error("the task's output cannot be followed; trying on", "error", err)
	})
}

// retry does something until it succeeds or the task is over. It complains of
// the first failure only.
func retry(ctx context.Context, do func(context.Context) error, complain func(error)) {
	var pause backoff
	for {
		ask, cancel := context.WithTimeout(ctx, removeTimeout)
		err := do(ask)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		if pause.tries == 0 {
			complain(err)
		}
		if pause.sleep(ctx) != nil {
			return
		}
	}
}
