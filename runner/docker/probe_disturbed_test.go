package docker

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Invariants 2 and 8: a probe whose container somebody takes away is no verdict
// on the runtime. It is begun again; while it never gets to its end the class is
// not given, for a reason that may pass, and the next who asks has it probed anew.
func TestInvariant8DisturbedProbe(t *testing.T) {
	w := newFakeWorld(t)
	host, s := mustFacts(t, w.Runner), subject{types.CC1, "runc"}
	delete(w.findings.known, s)
	var starts atomic.Int32
	var until int32 = 1000
	w.engine.before = func(_ int, call string) error {
		if call == "ContainerStart probe" && starts.Add(1) <= until {
			return notFound("container")
		}
		return nil
	}
	w.engine.exits["probe"], w.engine.logs["probe"] = 1, "no report"
	err := w.requireClass(t.Context(), s, host)
	for _, want := range []error{runner.ErrClassUnavailable, runner.ErrUnavailable, errDisturbed} {
		if !errors.Is(err, want) {
			t.Errorf("%v, which is not %v", err, want)
		}
	}
	if starts.Load() != maxDisturbed {
		t.Errorf("%d probes were begun", starts.Load())
	}
	// From now on it is disturbed once more, and then comes to its verdict.
	until = maxDisturbed + 1
	err = w.requireClass(t.Context(), s, host)
	if errors.Is(err, errDisturbed) || errors.Is(err, runner.ErrUnavailable) || err == nil || !strings.Contains(err.Error(), "printed no report (no report)") {
		t.Errorf("undisturbed: %v", err)
	}
	if starts.Load() != maxDisturbed+2 {
		t.Errorf("%d probes were begun", starts.Load())
	}
	// That verdict stands.
	if err := w.requireClass(t.Context(), s, host); errors.Is(err, errDisturbed) || starts.Load() != maxDisturbed+2 {
		t.Errorf("%v after %d probes", err, starts.Load())
	}
	if left := w.engine.labelled(); slices.ContainsFunc(left, func(x string) bool { return strings.Contains(x, probePrefix) }) {
		t.Errorf("left on the engine: %v", left)
	}
}

// A probe that was killed from outside was disturbed, and is begun again; a
// runtime whose probes are all killed does not work, and one that was killed for
// its memory has ended as the runtime has it.
func TestInvariant8KilledProbe(t *testing.T) {
	w := newFakeWorld(t)
	host, s := mustFacts(t, w.Runner), subject{types.CC1, "runc"}
	w.engine.exits["probe"] = codeKilled
	if v := w.probe(t.Context(), s, host); v.err == nil || errors.Is(v.err, errDisturbed) || !strings.Contains(v.err.Error(), "each of 3 probes was killed") || v.left {
		t.Errorf("killed each time: %+v", v)
	}
	starts := 0
	w.engine.started = func(name string) {
		if kind(name) != "probe" {
			return
		}
		if starts++; starts > 1 {
			w.engine.mu.Lock()
			defer w.engine.mu.Unlock()
			w.engine.exits["probe"], w.engine.logs["probe"] = 1, "no report"
		}
	}
	if v := w.probe(t.Context(), s, host); v.err == nil || !strings.Contains(v.err.Error(), "printed no report") {
		t.Errorf("killed once: %+v", v)
	}
	// Killed last, and before that disturbed: that not every one was is no word
	// about the runtime.
	delete(w.engine.logs, "probe")
	w.engine.exits["probe"], starts, w.engine.started = codeKilled, 0, nil
	w.engine.before = func(_ int, call string) error {
		if call == "ContainerStart probe" {
			if starts++; starts < maxDisturbed {
				return notFound("container")
			}
		}
		return nil
	}
	if v := w.probe(t.Context(), s, host); !errors.Is(v.err, errDisturbed) || starts != maxDisturbed {
		t.Errorf("killed once of %d: %+v", starts, v)
	}
	w.engine.before = nil
	w.engine.exits["probe"] = codeKilled
	w.engine.started = func(name string) {
		if kind(name) == "probe" {
			w.engine.mu.Lock()
			defer w.engine.mu.Unlock()
			w.engine.find(name).State = &container.State{Status: container.StateExited, OOMKilled: true}
		}
	}
	if v := w.probe(t.Context(), s, host); v.err == nil || errors.Is(v.err, errDisturbed) || !strings.Contains(v.err.Error(), "exit code 137") {
		t.Errorf("out of memory: %+v", v)
	}
}
