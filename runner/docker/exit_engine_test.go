package docker

import (
	"errors"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// TestK12ExitTellsOOM: killed for memory is told from killed, and from the death of a
// child that the task survived.
func TestK12ExitTellsOOM(t *testing.T) {
	const hog = "tail /dev/zero" // remembers all it reads
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		b := startedBox(t, boxSpec{world: w, runtime: rt, memoryMB: 64, argv: sh("exec " + hog)})
		b.waited(t)
		if e := b.exit(t); !e.OOMKilled || e.ChildOOM || e.Code != 137 || e.Signal != 9 || e.Err != nil {
			t.Errorf("killed for memory: %+v", e)
		}

		b = upBox(t, boxSpec{world: w, runtime: rt, memoryMB: 64, argv: sh(handles)})
		if err := b.StopProcess(t.Context(), b.ref, "", 0); err != nil {
			t.Fatal(err)
		}
		if e := b.exit(t); e.OOMKilled || e.ChildOOM || e.Code != 137 || e.Signal != 9 || e.Err != nil {
			t.Errorf("killed: %+v", e)
		}
	})
	b := startedBox(t, boxSpec{runtime: "runc", memoryMB: 64, argv: sh(hog + "; exit 9")})
	b.waited(t)
	if e := b.exit(t); e.OOMKilled || !e.ChildOOM || e.Code != 9 || e.Signal != 0 {
		t.Errorf("survived its child: %+v", e)
	}
}

// TestK1RuntimeCrash: how a sentry's death looks, and everything that looks
// nearly so.
func TestK1RuntimeCrash(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		for _, c := range []struct {
			script string
			crash  bool
		}{
			{"exit 2", rt == "runsc"},
			{"echo; exit 2", false},
			{"echo >&2; exit 2", false},
			{"exit 3", false},
		} {
			b := startedBox(t, boxSpec{world: w, runtime: rt, argv: sh(c.script)})
			b.waited(t)
			e := b.exit(t)
			if errors.Is(e.Err, runner.ErrRuntimeCrashed) != c.crash {
				t.Errorf("%q: %v", c.script, e.Err)
			}
			if e.Started.IsZero() || e.Finished.Before(e.Started) || time.Since(e.Finished) > time.Hour {
				t.Errorf("%q: from %v to %v", c.script, e.Started, e.Finished)
			}
		}
	})
}

func (b *box) exit(t *testing.T) runner.Exit {
	t.Helper()
	e, err := b.Exit(t.Context(), b.ref)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
