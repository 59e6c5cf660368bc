package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// lastFlush is how long a destroyed task's output may still flow: its exit was
// told before, and waited for it.
const lastFlush = time.Second

// DestroyTask takes everything down that a task made, also for a task this
// process has never seen. A client only logs an error of it and does not come
// back, so what fails is tried again in the background.
func (p *Plugin) DestroyTask(ctx context.Context, r *driverpb.DestroyTaskRequest) (*driverpb.DestroyTaskResponse, error) {
	b, err := p.backend()
	if err != nil {
		return nil, callError(err)
	}
	id := TaskID(r.GetTaskId())
	if r.GetForce() {
		err = p.tasks.interrupt(ctx, id)
	} else if p.tasks.beginning(id) {
		err = fmt.Errorf("task %q is being started; use force: %w", id, errState)
	}
	if err != nil {
		return nil, callError(err)
	}
	t, known := p.tasks.get(id)
	if known {
		if _, ended := t.exit(); !ended {
			if !r.GetForce() {
				return nil, callError(fmt.Errorf("task %q is running; stop it first or use force: %w", t.config.GetName(), errState))
			}
			p.killFirst(ctx, b, t)
		}
	}
	return &driverpb.DestroyTaskResponse{}, callError(p.takeDown(ctx, b, id, t))
}

// takeDown removes all that an attempt has, of which t, if it is not nil, is what
// this process knows. What fails is tried again in the background.
func (p *Plugin) takeDown(ctx context.Context, b *Backend, id TaskID, t *task) error {
	run := RunID(id)
	var serr error
	hadSetup := t == nil || t.state.hasStage("setup")
	if hadSetup {
		serr = removeSetup(ctx, b, run)
	}
	if err := errors.Join(serr, removeRun(ctx, b, run)); err != nil {
		p.log.Error("a sandbox could not be removed; trying on", "task_id", id, "run", run, "error", err)
		go p.bury(b, id, run)
		return err
	}
	if hadSetup {
		p.dropPrivate(ctx, b, run)
	}
	p.forget(b, id)
	return nil
}

// killFirst ends the process before its sandbox goes, so that whoever waits
// for the task learns of its real exit.
func (p *Plugin) killFirst(ctx context.Context, b *Backend, t *task) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if t.settingUp() && t.endSetup(ctx) != nil {
		return
	}
	if p.stopTask(ctx, b, t, "SIGKILL", 0) != nil {
		return
	}
	select {
	case <-t.done:
	case <-time.After(killWait):
	case <-ctx.Done():
	}
}

// removeRun takes down all that a run has, on the engine and on the node. What
// is gone already is fine.
func removeRun(ctx context.Context, b *Backend, run uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if err := b.Driver.DestroyContainer(ctx, b.Ref(run)); err != nil {
		return fmt.Errorf("destroy %s: %w", b.Ref(run), err) // its mounts are in use
	}
	return errors.Join(
		b.Outputs.Finish(ctx, outputOf(b, run, "", ""), lastFlush),
		b.Control.Forget(run),
		b.removeParkMark(run),
		b.removeHeld(run),
		taskpath.Unstage(stageDir(b, run.String())),
	)
}

// forget drops a destroyed task. Whoever still waits for it is told that it was
// killed, which is what happened.
//
// A recovery may have given the sidecar its control plane back after that was taken
// down, until the task is stopped; later ones see that it is.
func (p *Plugin) forget(b *Backend, id TaskID) {
	t, ok := p.tasks.get(id)
	if !ok {
		return
	}
	p.tasks.delete(id)
	t.stop()
	if err := b.Control.Forget(t.state.Run); err != nil {
		p.taskLog(t).Warn("the control plane of a task that is gone goes on", "error", err)
	}
	t.denials.summarise()
	t.end(outcome{Code: 137, Signal: 9, Err: "the task was destroyed while it ran"})
}

// bury removes what could not be removed at once, for as long as it takes.
func (p *Plugin) bury(b *Backend, id TaskID, run uuid.UUID) {
	var pause backoff
	for pause.sleep(p.life) == nil {
		if err := errors.Join(removeSetup(p.life, b, run), removeRun(p.life, b, run)); err == nil {
			p.dropPrivate(p.life, b, run)
			p.log.Info("removed at last", "task_id", id, "run", run)
			p.forget(b, id)
			return
		}
	}
}
