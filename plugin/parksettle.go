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
	if st.State.Terminal() {
		if ranAgain, err = startedSince(ctx, b.Runner, t.state.Ref, m.Since); err != nil {
			return err
		}
	}
	switch {
	case ranAgain: // a resume whose plugin died before it took the mark away
		return p.unpark(b, t)
	case st.State.Terminal():
		t.parking.stopped()
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

// startedSince reports whether a main process that is down was started after a
// time; false where the runner does not tell.
func startedSince(ctx context.Context, r runner.Runner, ref string, at time.Time) (bool, error) {
	reader, ok := r.(runner.ExitReader)
	if !ok {
		return false, nil
	}
	e, err := reader.Exit(ctx, ref)
	if errors.Is(err, runner.ErrNotFound) {
		return true, nil // no process is left to be resumed: the watch tells of it
	}
	return err == nil && e.Started.After(at), err
}
