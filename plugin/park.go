package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// parkTimeout bounds a park: the process has its time to end by itself.
const parkTimeout = 2 * time.Minute

// errParked is refused with what helps.
var errParked = fmt.Errorf("it is parked; resume it first, with the verb resume: %w", runner.ErrPrecondition)

// parking is whether a task is parked. A parked task's main process was stopped
// by us, so its exit is none of the task's: whoever watches waits for the end of
// the parking and looks again. The zero value is a task that runs.
type parking struct {
	change sync.Mutex // held while the task is being parked or resumed

	mu   sync.Mutex
	over chan struct{} // nil when it runs; closed when it runs again or is stopped
	down bool          // the process was seen to be stopped
	turn int           // parkings that have ended
}

// await takes change, for as long as ctx lasts.
func (p *parking) await(ctx context.Context) error {
	var pause backoff
	for !p.change.TryLock() {
		if err := pause.sleep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin parks.
func (p *parking) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == nil {
		p.over, p.down = make(chan struct{}), false
	}
}

// stopped notes that the process is down.
func (p *parking) stopped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
}

// word is the state of a task that is parked, or is being parked; "" of one
// that runs.
func (p *parking) word() driver.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over == nil:
		return ""
	case p.down:
		return parkedState
	}
	return parkingState
}

// end lets those who wait look again.
func (p *parking) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		close(p.over)
		p.over = nil
		p.turn++
	}
}

// until is closed at the parking's end; nil is a task that is not parked.
func (p *parking) until() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// turns is how many parkings have ended.
func (p *parking) turns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn
}

// sitOut waits for the end of a parking, for who has seen the process down in
// that turn. It is at once through when the turn is over already: what was seen
// is old by then. False is that the task is not parked, or that ctx has ended.
func (p *parking) sitOut(ctx context.Context, turn int) bool {
	p.mu.Lock()
	over, past := p.over, p.turn != turn
	p.mu.Unlock()
	switch {
	case past:
		return true
	case over == nil:
		return false
	}
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// park stops a task's main process and keeps its sandbox, which frees its slot.
// The mark comes first: the next plugin of one that dies in between finds a
// stopped process parked, never ended, and stops one that still runs.
func (p *Plugin) park(b *Backend, t *task) error {
	t.parking.change.Lock()
	defer t.parking.change.Unlock()
	if t.parking.until() != nil {
		return nil
	}
	if b.ParkDir == "" {
		return fmt.Errorf("park: %w", runner.ErrUnsupported)
	}
	// To its end also when the user leaves.
	ctx, cancel := context.WithTimeout(p.life, parkTimeout)
	defer cancel()
	mark := parkMark{Boot: bootID(), Since: time.Now().UTC()}
	if err := b.saveParkMark(t.state.Run, mark); err != nil {
		return fmt.Errorf("park: %w", err)
	}
	t.parking.begin()
	st, err := b.Runner.AgentStatus(ctx, t.state.Ref, "")
	switch {
	case err == nil && st.State.Terminal():
		err = fmt.Errorf("its process has exited: %w", errState)
	case err == nil:
		if err = b.Driver.Suspend(ctx, t.state.Ref, false); err != nil {
			return errors.Join(err, p.notParked(b, t, mark))
		}
	}
	if err != nil {
		return errors.Join(err, p.unpark(b, t))
	}
	if t.parking.until() == nil {
		return fmt.Errorf("it was stopped meanwhile: %w", errState)
	}
	p.parked(b, t, mark)
	return nil
}

// unpark ends a task's parking: the main process, running or not, is the task's
// again.
func (p *Plugin) unpark(b *Backend, t *task) error {
	err := b.removeParkMark(t.state.Run)
	t.parking.end()
	return err
}

// resumeParked starts a parked task's main process again, which takes a slot.
func (p *Plugin) resumeParked(b *Backend, t *task) error {
	t.parking.change.Lock()
	defer t.parking.change.Unlock()
	if t.parking.until() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.life, parkTimeout)
	defer cancel()
	err := b.Driver.Resume(ctx, t.state.Ref)
	switch {
	case errors.Is(err, driver.ErrInUse): // it says by whom
		return err
	case errors.Is(err, runner.ErrExhausted):
		return fmt.Errorf("the node has no free slot; stop or park another task, or try again later: %w", err)
	case err != nil:
		p.settleResume(b, t)
		return err
	}
	if err := p.unpark(b, t); err != nil {
		p.taskLog(t).Warn("the mark of a parked task stays; a restart of the plugin will think it parked", "error", err)
	}
	t.held.mu.Lock()
	p.forgetHeld(b, t) // of a process that is no more
	t.held.mu.Unlock()
	p.events.emit(t.config, "Task resumed: its command was started again", "state", "running")
	return nil
}

// stopTask ends a task's main process, and its parking. A resume that is under
// way is waited for: it would start what was just stopped.
func (p *Plugin) stopTask(ctx context.Context, b *Backend, t *task, signal string, timeout time.Duration) error {
	if t.parking.until() != nil {
		if err := t.parking.await(ctx); err != nil {
			return err
		}
		defer t.parking.change.Unlock()
	}
	unread, over := context.WithCancel(ctx)
	defer over()
	go p.letGoUnread(unread, b, t, timeout)
	err := stopProcess(ctx, b.Runner, t.state.Ref, signal, timeout)
	if err == nil || errors.Is(err, runner.ErrNotFound) {
		p.endParked(b, t)
	}
	return err
}

// endParked ends the parking of a task that is being stopped: how its process
// ended when it was parked is how the task ended.
func (p *Plugin) endParked(b *Backend, t *task) {
	if t.parking.until() == nil {
		return
	}
	if err := p.unpark(b, t); err != nil {
		p.taskLog(t).Warn("the mark of a parked task stays until the task is destroyed", "error", err)
	}
}

// What a task's state is called besides the words of package driver.
const (
	parkedState  = driver.State("parked")
	parkingState = driver.State("parking") // its process is being stopped
)
