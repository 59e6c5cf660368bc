package docker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// victim is a scripted process that ends after what it is sent.
type victim struct {
	*scripted
	mu    sync.Mutex
	state container.State
	sent  []string
	gone  chan struct{}
}

// newVictim scripts one; deaths says by signal how long dying takes.
func newVictim(s *scripted, deaths map[string]time.Duration) *victim {
	v := &victim{scripted: s, state: *runningState(), gone: make(chan struct{})}
	s.inspect = func() (*container.State, error) { c := v.now(); return &c, nil }
	s.wait = func(ctx context.Context) (int64, error) {
		select {
		case <-v.gone:
			return int64(v.now().ExitCode), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	s.unpause = func() error { v.note("unpause").Paused = false; return nil }
	s.kill = func(signal string) error {
		v.note(signal)
		if d, ok := deaths[signal]; ok {
			time.AfterFunc(d, func() { v.die(143) })
		}
		return nil
	}
	return v
}

func (v *victim) now() container.State {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state
}

// note records a call.
func (v *victim) note(what string) *container.State {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sent = append(v.sent, what)
	return &v.state
}

func (v *victim) die(code int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state.Running {
		v.state = *exitedState(code)
		close(v.gone)
	}
}

// TestStopTiming: the kill comes when the timeout is over, and not before.
func TestStopTiming(t *testing.T) {
	for _, c := range []struct {
		name    string
		deaths  map[string]time.Duration
		timeout time.Duration
		paused  bool
		sent    []string
		took    time.Duration
	}{
		{"obeys", map[string]time.Duration{"SIGTERM": time.Second}, 10 * time.Minute, false, []string{"SIGTERM"}, time.Second},
		{"obeys late", map[string]time.Duration{"SIGTERM": 9 * time.Minute}, 10 * time.Minute, false, []string{"SIGTERM"}, 9 * time.Minute},
		{"does not obey", map[string]time.Duration{"SIGKILL": 0}, 10 * time.Minute, false, []string{"SIGTERM", "SIGKILL"}, 10 * time.Minute},
		{"suspended", map[string]time.Duration{"SIGTERM": time.Second}, time.Minute, true, []string{"unpause", "SIGTERM"}, time.Second},
		{"at once", map[string]time.Duration{"SIGKILL": time.Second}, 0, true, []string{"unpause", "SIGKILL"}, time.Second},
		{"dies hard", map[string]time.Duration{"SIGKILL": killWait + time.Second}, -time.Second, false,
			[]string{"SIGKILL", "SIGKILL"}, killWait + time.Second},
	} {
		s := &scripted{}
		r := newScripted(t, s)
		synctest.Test(t, func(t *testing.T) {
			v := newVictim(s, c.deaths)
			v.state.Paused = c.paused
			begin := time.Now()
			err := r.StopProcess(t.Context(), scriptedRef, "", c.timeout)
			if err != nil || !reflect.DeepEqual(v.sent, c.sent) || time.Since(begin).Round(time.Second) != c.took {
				t.Errorf("%s: %v, %q in %v", c.name, err, v.sent, time.Since(begin))
			}
		})
	}
}

// TestB12StopErrors: only a process that is down is a success.
func TestB12StopErrors(t *testing.T) {
	zombie := errors.New("container PID 5 is zombie and can not be killed. Use the --init option")
	for _, c := range []struct {
		name string
		kill func(v *victim) error
		ok   bool
	}{
		{"ended by itself", func(v *victim) error { v.die(3); return fmt.Errorf("%w: is not running", errdefs.ErrConflict) }, true},
		{"removed", func(v *victim) error {
			v.inspect = func() (*container.State, error) { return nil, errdefs.ErrNotFound }
			return errdefs.ErrNotFound
		}, true},
		{"said to be a zombie and dead", func(v *victim) error { v.die(137); return zombie }, true},
		{"said to be a zombie and alive", func(v *victim) error { return zombie }, false},
		{"refused", func(v *victim) error { return errdefs.ErrPermissionDenied }, false},
		{"survives", func(v *victim) error { return nil }, false},
	} {
		s := &scripted{}
		r := newScripted(t, s)
		synctest.Test(t, func(t *testing.T) {
			v := newVictim(s, nil)
			s.kill = func(string) error { return c.kill(v) }
			if err := r.StopProcess(t.Context(), scriptedRef, "", time.Second); (err == nil) != c.ok {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// TestStopEscalates: a stop signal that the runtime refuses is no reason to
// let the task live.
func TestStopEscalates(t *testing.T) {
	s := &scripted{}
	r := newScripted(t, s)
	synctest.Test(t, func(t *testing.T) {
		newVictim(s, map[string]time.Duration{"SIGKILL": 0})
		kill := s.kill
		s.kill = func(signal string) error {
			if signal == "SIGUSR1" {
				return errdefs.ErrInvalidArgument
			}
			return kill(signal)
		}
		if err := r.StopProcess(t.Context(), scriptedRef, "USR1", time.Hour); err != nil {
			t.Error(err)
		}
	})
}

// TestStopOfAnEngineThatIsAway is an error, and one that says so.
func TestStopOfAnEngineThatIsAway(t *testing.T) {
	s := &scripted{inspect: func() (*container.State, error) { return nil, errdefs.ErrUnavailable }}
	r := newScripted(t, s)
	if err := r.StopProcess(t.Context(), scriptedRef, "", time.Minute); !errors.Is(err, runner.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		newVictim(s, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.StopProcess(ctx, scriptedRef, "", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's deadline: %v", err)
		}
	})
}

// TestFreezeRaces: what a call was to bring about and is there is a success.
func TestFreezeRaces(t *testing.T) {
	conflict := fmt.Errorf("%w: already so", errdefs.ErrConflict)
	state := runningState()
	s := &scripted{inspect: func() (*container.State, error) { c := *state; return &c, nil }}
	r := newScripted(t, s)
	s.pause = func() error { state.Paused = true; return conflict }
	if err := r.Pause(t.Context(), scriptedRef); err != nil {
		t.Errorf("Pause: %v", err)
	}
	s.unpause = func() error { state.Paused = false; return conflict }
	if err := r.Unpause(t.Context(), scriptedRef); err != nil {
		t.Errorf("Unpause: %v", err)
	}
	s.pause = func() error { return conflict }
	if err := r.Pause(t.Context(), scriptedRef); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("Pause that did nothing: %v", err)
	}
}

// A parked sandbox is listed as stopped when Park returns, although the engine
// goes on listing it as running for a while. One that it never lists as stopped
// is an error, and one that is gone is none.
func TestParkedIsListedAsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		stale int // how many lists are
		after []container.ContainerState
		err   error
	}{
		"at once": {after: []container.ContainerState{container.StateExited}},
		"late":    {stale: 5, after: []container.ContainerState{container.StateExited}},
		"gone":    {stale: 1},
		"never":   {stale: 1 << 30, err: runner.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			s := &scripted{inspect: func() (*container.State, error) { return exitedState(0), nil }}
			s.list = func() []container.ContainerState {
				if asked++; asked <= c.stale {
					return []container.ContainerState{container.StateRunning}
				}
				return c.after
			}
			if err := newScripted(t, s).Park(t.Context(), scriptedRef); !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
			if c.err == nil && asked != c.stale+1 {
				t.Errorf("%s: asked %d times", name, asked)
			}
		})
	}
}
