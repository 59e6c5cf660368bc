package docker

import (
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// C7, K4: a task's sandbox is created and not started; Exec starts it; Stop
// and Kill of a sandbox that is gone are nil.
func TestC7CreateStatusStop(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		spec := specFor(t, rt)
		ref := w.sandbox(t, spec)
		if s, err := w.Status(t.Context(), ref); err != nil || s.State != types.StateStarting {
			t.Errorf("after create: %+v, %v", s, err)
		}
		if id, err := w.Exec(t.Context(), ref, nil); err != nil || id != "" {
			t.Fatalf("Exec = %q, %v", id, err)
		}
		if s, err := w.Status(t.Context(), ref); err != nil || s.State != types.StateRunning {
			t.Errorf("after Exec: %+v, %v", s, err)
		}
		for range 2 {
			if err := w.StopSandbox(t.Context(), ref); err != nil {
				t.Error(err)
			}
		}
		if err := w.KillSandbox(t.Context(), ref); err != nil {
			t.Error(err)
		}
	})
}

// K4: without a task the sandbox idles and runs at once.
func TestK4IdleSandboxRuns(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		spec := specFor(t, rt)
		spec.Task = nil
		ref := w.sandbox(t, spec)
		s, err := w.Status(t.Context(), ref)
		if err != nil || s.State != types.StateRunning {
			t.Errorf("%+v, %v", s, err)
		}
		x, err := w.ExecStream(t.Context(), ref, runner.ExecSpec{Argv: []string{"cat", "/etc/hosts", "/etc/resolv.conf"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(drain(x, nil))
	})
}
