package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// parkedBefore takes up the parking of a recovered task. One that a reboot has
// cut off from what it needs is lost.
func (p *Plugin) parkedBefore(b *Backend, t *task) (lost bool, err error) {
	m, err := b.loadParkMark(t.state.Run)
	if err != nil || m == nil {
		return false, err
	}
	if m.lost() {
		why := fmt.Sprintf("lost while parked: the node was restarted after %s", m.Since.Format(time.RFC3339))
		p.events.emit(t.config, "Task "+why, "state", "lost")
		t.end(outcome{Code: -1, Err: why})
		return true, nil
	}
	t.parking.begin()
	if m.Stopped {
		t.parking.stopped()
	}
	go p.settleParked(b, t, *m)
	return false, nil
}

// settleParked finds out what a parking has come to, or brings it to its end,
// for as long as the engine cannot be asked. A mark alone is no more than what
// was wanted when it was written.
func (p *Plugin) settleParked(b *Backend, t *task, m parkMark) {
	var pause backoff
	for {
		err := p.settleOnce(b, t, m)
		if err == nil || t.ctx.Err() != nil {
			return
		}
		if pause.tries == 0 {
			p.taskLog(t).Warn("a task is marked as parked, and whether it is cannot be asked yet", "error", err)
		}
		if pause.sleep(t.ctx) != nil {
			return
		}
	}
}

// settleResume finds out what a resume has come to whose answer was an error:
// an engine that was too slow to say so may have started the process.
func (p *Plugin) settleResume(b *Backend, t *task) {
	m, err := b.loadParkMark(t.state.Run)
	if err == nil && m != nil {
		go p.settleParked(b, t, *m)
	}
}

func (p *Plugin) settleOnce(b *Backend, t *task, m parkMark) error {
	ctx, cancel := context.WithTimeout(t.ctx, parkTimeout)
	defer cancel()
	if err := t.parking.await(ctx); err != nil {
		return err
	}
	defer t.parking.change.Unlock()
	if t.parking.until() == nil {
		return nil // somebody has resumed or stopped it meanwhile
	}
	st, err := b.Runner.AgentStatus(ctx, t.state.Ref, "")
	if err != nil {
		return err
	}
	ranAgain := m.Stopped
	if m.Stopped && st.State.Terminal() {
		if ranAgain, err = startedSince(ctx, b.Runner, t.state.Ref, m); err != nil {
			return err
		}
	}
	switch {
	case ranAgain: // a resume whose plugin died before it took the mark away
		return p.unpark(b, t)
	case st.State.Terminal() && m.Stopped:
		t.parking.stopped()
		return nil
	case st.State.Terminal():
		p.parked(b, t, m)
		return nil
	}
	// The stop was never asked for, or is under way: an exit that it brings about
	// must not be taken for the task's own.
	if err := b.Driver.Suspend(ctx, t.state.Ref, false); err != nil {
		return err
	}
	p.parked(b, t, m)
	return nil
}

// parked notes that the process of a task that is being parked is down.
func (p *Plugin) parked(b *Backend, t *task, m parkMark) {
	t.parking.stopped()
	m.Stopped = true
	ctx, cancel := context.WithTimeout(t.ctx, askTimeout)
	defer cancel()
	var err error
	if m.Started, err = startOf(ctx, b.Runner, t.state.Ref); err != nil {
		p.taskLog(t).Warn("the mark of a parked task does not say when its process had been started", "error", err)
	}
	if err := b.saveParkMark(t.state.Run, m); err != nil {
		p.taskLog(t).Warn("the mark of a parked task does not say that its process was stopped", "error", err)
	}
	p.events.emit(t.config, "Task parked: its process was stopped and its slot is free; wardyn resume starts it again", "state", string(parkedState))
}

// notParked ends a parking that has failed where the process is known to run.
// Elsewhere the stop may have come about, and that was no exit of the task's:
// the parking goes on until the engine says.
func (p *Plugin) notParked(b *Backend, t *task, m parkMark) error {
	ctx, cancel := context.WithTimeout(p.life, askTimeout)
	defer cancel()
	st, err := b.Runner.AgentStatus(ctx, t.state.Ref, "")
	switch {
	case err != nil:
		go p.settleParked(b, t, m)
	case st.State.Terminal():
		p.parked(b, t, m)
	default:
		return p.unpark(b, t)
	}
	return errors.New("its process may be stopped, so it counts as parked; resume starts it again")
}

// startedSince reports whether a main process that is down is another one than
// that which was parked; false where the runner does not tell.
func startedSince(ctx context.Context, r runner.Runner, ref string, m parkMark) (bool, error) {
	started, err := startOf(ctx, r, ref)
	switch {
	case errors.Is(err, runner.ErrNotFound):
		return true, nil // no process is left to be resumed: the watch tells of it
	case err != nil || started.IsZero():
		return false, err
	case m.Started.IsZero():
		return started.After(m.Since), nil
	}
	return !started.Equal(m.Started), nil
}

// startOf is when a main process that is down was started, by the engine; zero
// where the runner does not tell.
func startOf(ctx context.Context, r runner.Runner, ref string) (time.Time, error) {
	reader, ok := r.(runner.ExitReader)
	if !ok {
		return time.Time{}, nil
	}
	e, err := reader.Exit(ctx, ref)
	return e.Started, err
}
