package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// errClosed is what Wait says after Close: the exit code was not waited for.
var errClosed = errors.New("the stream was closed before its process ended")

// killRounds bounds how often a process is asked to end that does not.
const killRounds = 10

// pump carries the output until its end, then settles how the process ended.
func (p *process) pump() {
	out := &startText{w: p.stdout.w}
	var err error
	if p.tty {
		_, err = io.Copy(out, p.link.reader())
	} else {
		_, err = stdcopy.StdCopy(out, p.stderr.w, p.link.reader())
	}
	p.code, p.over, p.err = p.outcome(err)
	if p.over && p.err == nil {
		p.err = out.settle(p.ref, p.code)
	}
	p.stdout.w.Close()
	p.stderr.w.Close()
	p.link.conn.Close()
	p.unwatch()
	p.cancel()
	close(p.done)
}

// outcome asks how the process ended, once its stream has.
func (p *process) outcome(streamErr error) (code int, over bool, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, callTimeout)
	defer cancel()
	var pause backoff
	for {
		s, err := p.r.inspectExec(ctx, p.exec)
		switch {
		case p.ctx.Err() != nil:
			return 0, false, fmt.Errorf("exec in %s: %w: %w", p.ref, errClosed, p.ctx.Err())
		case errors.Is(err, runner.ErrNotFound):
			return 0, false, fmt.Errorf("exec in %s: %w: %w", p.ref, runner.ErrUnavailable, errLost)
		case err == nil && s.Running:
			err = fmt.Errorf("%w: its stream has ended, but it runs on", runner.ErrUnavailable)
		case err == nil && s.ExitCode == nil:
			return 0, true, fmt.Errorf("exec in %s: the process was never started", p.ref)
		case err == nil:
			return *s.ExitCode, true, nil
		}
		if pause.sleep(ctx) != nil {
			return 0, false, errors.Join(fmt.Errorf("exec in %s: exit code not known: %w", p.ref, err), streamErr)
		}
	}
}

func (p *process) wait() (int, error) {
	<-p.done
	return p.code, p.err
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// close ends the stream and its process. It returns when the process is down.
func (p *process) close() error {
	p.closeOnce.Do(func() {
		p.cancel()
		p.link.conn.Close()
		// Both read ends, or the pump would wait for a reader for good.
		p.stdout.r.CloseWithError(io.ErrClosedPipe)
		p.stderr.r.CloseWithError(io.ErrClosedPipe)
		<-p.done
		if !p.over {
			p.closeErr = p.r.killExec(p.ref, p.exec, p.id)
		}
	})
	return p.closeErr
}

// killExec ends an exec's process group through the recorder, since the engine
// has no call for it and lets the process of a client that is gone run on. A
// process that is down is nil. In a suspended sandbox it is done on resume.
func (r *Runner) killExec(ref, exec, id string) error {
	ctx, cancel := undo()
	defer cancel()
	var pause backoff
	for round := 1; ; round++ {
		// The engine answers a start before it starts: a process that is not
		// there yet is waited for.
		s, err := r.inspectExec(ctx, exec)
		forgotten := errors.Is(err, runner.ErrNotFound)
		switch {
		case err == nil && !s.Running && s.ExitCode != nil:
			return nil
		case err == nil && s.Running, forgotten:
			err = r.runKill(ctx, ref, id)
			if errors.Is(err, errFrozen) {
				r.use.owed.add(ref, id)
				return nil
			}
			if errors.Is(err, runner.ErrPrecondition) || errors.Is(err, runner.ErrNotFound) || err == nil && forgotten {
				return nil // its sandbox is down, or nothing more can be learnt
			}
		}
		if round == killRounds || pause.sleep(ctx) != nil {
			if err == nil {
				err = runner.ErrUnavailable
			}
			return fmt.Errorf("process %s in %s could not be ended: %w", id, ref, err)
		}
	}
}

// runKill starts the recorder's kill in the sandbox.
func (r *Runner) runKill(ctx context.Context, ref, id string) error {
	ctx, cancel := call(ctx)
	defer cancel()
	exec, err := r.createExec(ctx, ref, container.ExecOptions{Cmd: []string{recorderTarget, "kill", id}})
	if err != nil {
		return err
	}
	return refused("kill", r.api.ContainerExecStart(ctx, exec, container.ExecStartOptions{Detach: true}))
}

// settleOwed ends what could not be ended while the sandbox was frozen. What
// still finds it frozen (createExec) is owed until the next thaw.
func (r *Runner) settleOwed(ctx context.Context, ref string) {
	for _, id := range r.use.owed.take(ref) {
		err := r.runKill(ctx, ref, id)
		var pause backoff
		for round := 1; errors.Is(err, errFrozen) && round < createRounds && pause.sleep(ctx) == nil; round++ {
			err = r.runKill(ctx, ref, id)
		}
		if errors.Is(err, errFrozen) {
			r.use.owed.add(ref, id)
		}
		if err != nil {
			r.opts.Log.Warn("process of a closed stream runs on", "ref", ref, "id", id, "error", err)
		}
	}
}

// owed remembers the execs that are to be killed when their sandbox thaws.
type owed struct {
	mu sync.Mutex
	m  map[string][]string
}

func (o *owed) add(ref, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil {
		o.m = make(map[string][]string)
	}
	o.m[ref] = append(o.m[ref], id)
}

func (o *owed) take(ref string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	ids := o.m[ref]
	delete(o.m, ref)
	return ids
}
