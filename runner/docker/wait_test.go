package docker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

var errEngine = errors.New("internal server error")

// TestR42WaitRidesOut: no number of errors is an exit, and none is an end.
func TestR42WaitRidesOut(t *testing.T) {
	for _, failures := range []int{0, 1, 300, 3000} {
		s := &scripted{}
		r := newScripted(t, s)
		synctest.Test(t, func(t *testing.T) {
			left := failures
			s.inspect = func() (*container.State, error) {
				if left > 0 {
					left--
					return nil, errEngine
				}
				return exitedState(7), nil
			}
			if code, err := r.Wait(t.Context(), scriptedRef); code != 7 || err != nil {
				t.Errorf("after %d errors: %d, %v", failures, code, err)
			}
		})
	}
}

// TestB4WaitCallsThatFail: the state decides each time, and the engine is not
// asked in a tight loop.
func TestB4WaitCallsThatFail(t *testing.T) {
	s := &scripted{}
	r := newScripted(t, s)
	synctest.Test(t, func(t *testing.T) {
		begin, tries := time.Now(), 0
		s.inspect = func() (*container.State, error) { return runningState(), nil }
		s.wait = func(context.Context) (int64, error) {
			if tries++; tries < 300 {
				return 0, errEngine
			}
			return 5, nil
		}
		if code, err := r.Wait(t.Context(), scriptedRef); code != 5 || err != nil {
			t.Errorf("%d, %v", code, err)
		}
		if took := time.Since(begin); took < 290*maxPause || took > 300*maxPause {
			t.Errorf("300 tries in %v", took)
		}
	})
}

// Invariant 8: an answer that says nothing reads as code 0, and is no exit.
func TestI8WaitAnsweredWithNothing(t *testing.T) {
	for name, c := range map[string]struct {
		empty, code int
		gone        bool
	}{"empty once": {1, 6, false}, "empty often": {50, 6, false}, "zero": {0, 0, false}, "empty, then zero": {3, 0, false}, "zero, and gone": {0, 0, true}} {
		s := &scripted{}
		r := newScripted(t, s)
		synctest.Test(t, func(t *testing.T) {
			state, left := runningState(), c.empty
			s.inspect = func() (*container.State, error) {
				if c.gone && !state.Running {
					return nil, errdefs.ErrNotFound
				}
				return state, nil
			}
			s.wait = func(context.Context) (int64, error) {
				if left--; left >= 0 {
					return 0, nil
				}
				state = exitedState(c.code)
				return int64(c.code), nil
			}
			if code, err := r.Wait(t.Context(), scriptedRef); code != c.code || err != nil {
				t.Errorf("%s: %d, %v", name, code, err)
			}
		})
	}
}

// Invariant 8: a code that an engine may have made up, since the process ended
// while it was away, is told as such; the same code of a process whose end was
// seen is the task's own.
func TestI8EndThatNobodySaw(t *testing.T) {
	for name, c := range map[string]struct {
		breaks, unseen bool
		code           int
	}{"away": {true, true, 255}, "seen": {false, false, 255}, "away, with a code": {true, false, 7}} {
		s := &scripted{}
		r := newScripted(t, s)
		synctest.Test(t, func(t *testing.T) {
			state := runningState()
			s.inspect = func() (*container.State, error) { return state, nil }
			s.wait = func(context.Context) (int64, error) {
				state = exitedState(c.code)
				if c.breaks {
					return 0, errEngine
				}
				return int64(c.code), nil
			}
			if code, err := r.Wait(t.Context(), scriptedRef); code != c.code || err != nil {
				t.Errorf("%s: %d, %v", name, code, err)
			}
			if e, err := r.Exit(t.Context(), scriptedRef); err != nil || e.Code != c.code || errors.Is(e.Err, runner.ErrUnavailable) != c.unseen {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
		})
	}
}

// TestWaitEnds where it must: the engine says that there is no such container,
// it was never started, the caller leaves.
func TestWaitEnds(t *testing.T) {
	s := &scripted{}
	r := newScripted(t, s)
	synctest.Test(t, func(t *testing.T) {
		first := true
		s.inspect = func() (*container.State, error) {
			if first {
				first = false
				return runningState(), nil
			}
			return nil, errdefs.ErrNotFound
		}
		s.wait = func(context.Context) (int64, error) { return 0, errEngine }
		if _, err := r.Wait(t.Context(), scriptedRef); !errors.Is(err, runner.ErrNotFound) {
			t.Errorf("removed meanwhile: %v", err)
		}

		for name, st := range map[string]*container.State{
			"created":        {Status: "created"},
			"failed start":   {Status: "created", ExitCode: 127, Error: "no such file"},
			"being removed":  {Status: "removing"},
			"zero time zone": {Status: "exited", StartedAt: "0001-01-01T00:00:00Z"},
		} {
			s.inspect = func() (*container.State, error) { return st, nil }
			if code, err := r.Wait(t.Context(), scriptedRef); !errors.Is(err, runner.ErrPrecondition) {
				t.Errorf("%s: %d, %v; never started is no exit", name, code, err)
			}
		}

		s.inspect = func() (*container.State, error) { return runningState(), nil }
		s.wait = func(ctx context.Context) (int64, error) { // answered as the caller leaves
			<-ctx.Done()
			return 0, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Wait(ctx, scriptedRef); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("caller's deadline: %v", err)
		}
		// The bubble does not end before every goroutine of the wait has.
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff
		for i, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 2000, 2000} {
			begin := time.Now()
			if err := b.sleep(t.Context()); err != nil || time.Since(begin) != want*time.Millisecond {
				t.Errorf("pause %d: %v, %v", i, time.Since(begin), err)
			}
		}
		b.tries = 1 << 40
		begin := time.Now()
		if b.sleep(t.Context()); time.Since(begin) != maxPause {
			t.Errorf("after many: %v", time.Since(begin))
		}
		b.reset()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.sleep(ctx); err == nil {
			t.Error("slept with its context over")
		}
	})
}
