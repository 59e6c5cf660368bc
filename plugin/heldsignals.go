package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// heldSignals are what a suspended task is to get when it goes on, in the order
// in which they first came. A client ends a task that it can't tell of a changed
// template or a new token, and a suspended one would be lost by that.
type heldSignals struct {
	mu    sync.Mutex // held while the task is signalled or thawed
	names []string
	known bool // names has what an earlier plugin left on disk
}

// endsTask reports whether a signal, by its full name, is for ending a task.
// None of those is kept: whoever sends one wants to know that nothing came of it.
func endsTask(signal string) bool {
	return slices.Contains([]string{"SIGKILL", "SIGTERM", "SIGINT", "SIGQUIT", "SIGABRT"}, signal)
}

// signal sends a signal to a living task. A frozen one gets it when it goes on;
// a parked one, whose command will start anew, has no use for it.
func (p *Plugin) signal(ctx context.Context, b *Backend, t *task, name string) error {
	if t.parking.until() != nil {
		switch {
		case name == "SIGCONT":
			return p.resumeParked(b, t)
		case endsTask(name) || freezes(name):
			return fmt.Errorf("signal %s to task %q: %w", name, t.config.GetName(), errParked)
		}
		return nil
	}
	s, ok := b.Runner.(runner.Signaler)
	if !ok {
		return fmt.Errorf("signals: %w", runner.ErrUnsupported)
	}
	t.held.mu.Lock()
	defer t.held.mu.Unlock()
	err := s.Signal(ctx, t.state.Ref, name)
	switch {
	case err == nil && freezes(name):
		return nil
	case err == nil:
		p.sendHeld(ctx, b, t)
		return nil
	case errors.Is(err, runner.ErrPrecondition) && !endsTask(name):
		if h, ierr := b.Driver.Inspect(ctx, t.state.Ref); ierr == nil && h.State == driver.StateSuspended {
			p.hold(b, t, name)
			return nil
		}
	}
	return fmt.Errorf("signal %s to task %q: %w", name, t.config.GetName(), err)
}

// thaw lets a frozen task go on, with the signals that came meanwhile.
func (p *Plugin) thaw(ctx context.Context, b *Backend, t *task) error {
	t.held.mu.Lock()
	defer t.held.mu.Unlock()
	if err := b.Driver.Resume(ctx, t.state.Ref); err != nil {
		return err
	}
	p.sendHeld(ctx, b, t)
	return nil
}

// sendIfRunning sends what was kept while the engine had a task frozen that nobody
// suspended, as it has for a commit: no resume will follow.
func (p *Plugin) sendIfRunning(b *Backend, t *task) {
	t.held.mu.Lock()
	defer t.held.mu.Unlock()
	if p.recallHeld(b, t); len(t.held.names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, askTimeout)
	defer cancel()
	if h, err := b.Driver.Inspect(ctx, t.state.Ref); err == nil && h.State == driver.StateRunning {
		p.sendHeld(ctx, b, t)
	}
}

// hold keeps a signal, each once.
func (p *Plugin) hold(b *Backend, t *task, name string) {
	p.recallHeld(b, t)
	if slices.Contains(t.held.names, name) {
		return
	}
	t.held.names = append(t.held.names, name)
	data, err := json.Marshal(t.held.names)
	if err == nil && b.ParkDir != "" {
		err = writeDurably(b.heldPath(t.state.Run), data)
	}
	if err != nil {
		p.taskLog(t).Warn("a signal is kept in memory alone; a restart of the plugin forgets it", "signal", name, "error", err)
	}
	p.events.emit(t.config, "Signal "+name+" is kept until the task is resumed", "signal", name)
}

// sendHeld sends what was kept. Nothing is tried twice.
func (p *Plugin) sendHeld(ctx context.Context, b *Backend, t *task) {
	p.recallHeld(b, t)
	if len(t.held.names) == 0 {
		return
	}
	for _, name := range t.held.names {
		err := runner.ErrUnsupported
		if s, ok := b.Runner.(runner.Signaler); ok {
			err = s.Signal(ctx, t.state.Ref, name)
		}
		text := "Signal " + name + ", kept while the task was suspended, is sent"
		if err != nil {
			text = fmt.Sprintf("Signal %s, kept while the task was suspended, could not be sent: %v", name, err)
		}
		p.events.emit(t.config, text, "signal", name)
	}
	p.forgetHeld(b, t)
}

// forgetHeld drops what was kept.
func (p *Plugin) forgetHeld(b *Backend, t *task) {
	t.held.names, t.held.known = nil, true
	if err := b.removeHeld(t.state.Run); err != nil {
		p.taskLog(t).Warn("signals that were sent stay on disk; a restart of the plugin will send them again", "error", err)
	}
}

// recallHeld reads what an earlier plugin kept, once.
func (p *Plugin) recallHeld(b *Backend, t *task) {
	if t.held.known {
		return
	}
	t.held.known = true
	if b.ParkDir == "" {
		return
	}
	data, err := os.ReadFile(b.heldPath(t.state.Run))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(data, &t.held.names)
	}
	if err != nil {
		p.taskLog(t).Warn("signals that were kept while the task was suspended are lost", "error", err)
	}
}

func (b *Backend) heldPath(run uuid.UUID) string {
	return filepath.Join(b.ParkDir, run.String()+".signals")
}

func (b *Backend) removeHeld(run uuid.UUID) error {
	if b.ParkDir == "" {
		return nil
	}
	if err := os.Remove(b.heldPath(run)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
