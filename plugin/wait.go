package plugin

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// askTimeout bounds one question to the engine.
	askTimeout = 30 * time.Second
	// drainTimeout bounds how long a finished task's last output is waited for:
	// it takes a client that has stopped reading to need that long.
	drainTimeout = 15 * time.Second
)

// WaitTask answers when the task has exited. It never answers anything else:
// when the client leaves or the plugin ends, either of which ends ctx, nothing
// is known of the task, and that is what the error says.
func (p *Plugin) WaitTask(ctx context.Context, r *driverpb.WaitTaskRequest) (*driverpb.WaitTaskResponse, error) {
	t, ok := p.tasks.get(TaskID(r.GetTaskId()))
	if !ok {
		return nil, wire.ErrTaskNotFound
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	o, _ := t.exit()
	return &driverpb.WaitTaskResponse{Result: o.result(), Err: o.message()}, nil
}

// watch waits for a task's exit, once for each task, and makes it known when
// the task's last output has been handed on.
func (p *Plugin) watch(b *Backend, t *task) {
	var o exited
	for {
		turn := t.parking.turns()
		var err error
		if o, err = awaitExit(t.ctx, b.Runner, t.state.Ref); err != nil {
			return // destroyed, or the plugin ends: there is no exit to tell of
		}
		if !t.parking.sitOut(t.ctx, turn) {
			break
		}
	}
	if t.ctx.Err() != nil {
		return // the same, of a parked one
	}
	select {
	case <-t.carried:
	case <-time.After(drainTimeout):
		p.taskLog(t).Warn("nobody reads the task's log files; its last output may be missing from its logs")
		p.events.emit(t.config, "The last output of the task was not read in time and may be missing from its logs")
	case <-t.ctx.Done():
	}
	if p.life.Err() != nil {
		return // the next process will find the same exit
	}
	t.denials.summarise()
	p.tellStage(t, o.Code)
	p.endRecording(b, t, o.outcome)
	t.end(t.judged(o.outcome))
	if o.childOOM {
		p.events.emit(t.config, "A process of the task was killed for memory; the task went on")
	}
}

// exited is an exit with what only events tell.
type exited struct {
	outcome
	childOOM bool
}

// awaitExit blocks until the engine says that the main process is down. An
// engine that cannot be asked is asked again for as long as ctx lasts.
func awaitExit(ctx context.Context, r runner.Runner, ref string) (exited, error) {
	var pause backoff
	for {
		code, err := r.Wait(ctx, ref)
		if ctx.Err() != nil {
			return exited{}, ctx.Err()
		}
		if err == nil {
			return exitDetails(ctx, r, ref, code)
		}
		if errors.Is(err, runner.ErrNotFound) {
			return exited{outcome: outcome{Code: -1, Err: "the sandbox was removed by somebody else; how the task ended is not known"}}, nil
		}
		if o, known := exitByStatus(ctx, r, ref); known {
			return o, nil
		}
		if err := pause.sleep(ctx); err != nil {
			return exited{}, err
		}
	}
}

// exitDetails adds to an exit code what the runner can tell more.
func exitDetails(ctx context.Context, r runner.Runner, ref string, code int) (exited, error) {
	plain := exited{outcome: outcome{Code: code}}
	reader, ok := r.(runner.ExitReader)
	if !ok {
		return plain, nil
	}
	var pause backoff
	for {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		e, err := reader.Exit(ask, ref)
		cancel()
		switch {
		case err == nil:
			return readExit(e), nil
		case ctx.Err() != nil:
			return exited{}, ctx.Err()
		case !errors.Is(err, runner.ErrUnavailable):
			return plain, nil
		}
		if err := pause.sleep(ctx); err != nil {
			return exited{}, err
		}
	}
}

// readExit keeps the runtime's failures apart from the task's: those are no
// exit code.
func readExit(e runner.Exit) exited {
	o := exited{outcome: outcome{Code: e.Code, Signal: e.Signal, OOMKilled: e.OOMKilled, At: e.Finished}, childOOM: e.ChildOOM}
	if e.Err != nil {
		o.Code, o.Signal, o.Err = -1, 0, e.Err.Error()
	}
	return o
}

// exitByStatus asks in the other way, for a runner whose Wait gave up.
func exitByStatus(ctx context.Context, r runner.Runner, ref string) (exited, bool) {
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	st, err := r.AgentStatus(ask, ref, "")
	if err != nil || !st.State.Terminal() {
		return exited{}, false
	}
	code := -1
	if st.ExitCode != nil {
		code = *st.ExitCode
	}
	o, err := exitDetails(ctx, r, ref, code)
	if err == nil && o.Code == -1 && o.Err == "" {
		o.Err = "the sandbox ended without an exit code: " + st.Message
	}
	return o, err == nil
}

// backoff spaces tries: 100 ms at first, doubling up to 5 s.
type backoff struct{ tries int }

func (b *backoff) sleep(ctx context.Context) error {
	t := time.NewTimer(min(100*time.Millisecond<<min(b.tries, 10), 5*time.Second))
	defer t.Stop()
	b.tries++
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
