package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// destroyTimeout bounds the end of a run: a client sets no limit, but this one has a user who
// waits.
const destroyTimeout = 2 * time.Minute

// follow sees a run through to its end. life ends when the client lets go of the plugin; the
// task is then left alone.
func (t *Task) follow(life context.Context, r *run) {
	defer close(r.done)
	ctx, cancel := context.WithCancel(life)
	var stats sync.WaitGroup
	stats.Go(func() { t.followStats(ctx, r.id) })
	r.exit, r.err = t.await(ctx, r)
	cancel()
	stats.Wait()
	if life.Err() != nil {
		r.err = ErrClosed
		t.abandonLogs() // the task writes on for the next client
		return
	}
	ctx, cancel = context.WithTimeout(life, destroyTimeout)
	defer cancel()
	if err := t.alloc.plugin.DestroyTask(ctx, r.id, true); err != nil {
		t.alloc.plugin.log.Error("failed to destroy task", "task", t.spec.Name, "error", err)
	}
	if err := t.closeLogs(ctx); err != nil {
		t.alloc.plugin.log.Error("log collection failed", "task", t.spec.Name, "error", err)
	}
}

// await waits for the task's exit, across crashes of the plugin. As for a client, a wait that
// fails is an exit with that error.
func (t *Task) await(ctx context.Context, r *run) (ExitResult, error) {
	p := t.alloc.plugin
	for {
		exit, err := p.WaitTask(ctx, r.id)
		switch {
		case err == nil:
			return exit, nil
		case ctx.Err() != nil:
			return ExitResult{}, ctx.Err()
		case !errors.Is(err, ErrPluginGone):
			return ExitResult{Err: ErrorText(err)}, nil
		}
		if err := t.recover(ctx); err != nil {
			return ExitResult{Err: fmt.Sprintf("failed to recover task after a plugin crash: %s", ErrorText(err))}, nil
		}
	}
}

// recover hands the running task to the new plugin process. As after a mere plugin crash the
// handle still has the driver configuration.
func (t *Task) recover(ctx context.Context) error {
	p := t.alloc.plugin
	if _, err := p.taskSchema(ctx); err != nil {
		return err
	}
	if _, err := p.Capabilities(ctx); err != nil {
		return err
	}
	return p.RecoverTask(ctx, t.Handle())
}

// followStats keeps a stream of samples open, opening it again after each end.
func (t *Task) followStats(ctx context.Context, id string) {
	if t.spec.StatsInterval < 0 {
		return
	}
	for {
		err := t.alloc.plugin.TaskStats(ctx, id, t.spec.StatsInterval, func(u TaskUsage) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.usage = u
			return nil
		})
		if err != nil && ctx.Err() == nil {
			t.alloc.plugin.log.Error("failed to get stats of task", "task", t.spec.Name, "error", err)
		}
		select {
		case <-time.After(t.spec.StatsInterval):
		case <-ctx.Done():
			return
		}
	}
}
