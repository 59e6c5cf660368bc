package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// killRounds bounds how often a process is asked to end that does not.
const killRounds = 10

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
	created, err := r.api.ContainerExecCreate(ctx, ref, container.ExecOptions{Cmd: []string{recorderTarget, "kill", id}})
	if err != nil {
		return r.execRefused(ctx, ref, err)
	}
	return refused("kill", r.api.ContainerExecStart(ctx, created.ID, container.ExecStartOptions{Detach: true}))
}

// settleOwed ends what could not be ended while the sandbox was frozen.
func (r *Runner) settleOwed(ctx context.Context, ref string) {
	for _, id := range r.use.owed.take(ref) {
		if err := r.runKill(ctx, ref, id); err != nil {
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

// refusalMark begins what a runtime says, on the stream of a process's output,
// about a process that it could not start.
const refusalMark = "OCI runtime exec failed"

// startText passes a process's output on, but holds back a beginning that may
// be the runtime's own words until the exit code tells.
type startText struct {
	w     io.Writer
	held  []byte
	plain bool // what comes is the process's own output
}

func (s *startText) Write(b []byte) (int, error) {
	if s.plain {
		return s.w.Write(b)
	}
	s.held = append(s.held, b...)
	mark := []byte(refusalMark)
	if len(s.held) <= maxEngineText && (bytes.HasPrefix(s.held, mark) || bytes.HasPrefix(mark, s.held)) {
		return len(b), nil
	}
	return len(b), s.release()
}

func (s *startText) release() error {
	s.plain = true
	held := s.held
	s.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := s.w.Write(held)
	return err
}

// settle turns what is held into an error when the exit code says that the
// process was not started, and passes it on as output otherwise.
func (s *startText) settle(ref string, code int) error {
	if (code != 126 && code != 127) || !bytes.HasPrefix(s.held, []byte(refusalMark)) {
		s.release() // its reader may be gone: then nobody misses it
		return nil
	}
	text := engineText(string(s.held))
	if strings.Contains(text, "paused") {
		return fmt.Errorf("%w (%s)", frozen("exec in", ref), text)
	}
	return fmt.Errorf("exec in %s: the process was not started: %s", ref, text)
}
