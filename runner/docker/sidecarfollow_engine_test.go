package docker

import (
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// TestSidecarEndsWithAStoppedTask: a stop for good ends the sidecar too, which
// nobody takes for a death to be made good, while a parked sandbox keeps it. How
// the task ended can still be read.
func TestSidecarEndsWithAStoppedTask(t *testing.T) {
	eachNetwork(t, func(t *testing.T, rt string, w *world) {
		spec := specFor(t, rt)
		ref := w.startedSandbox(t, spec)
		sidecar := ProxyName(w.nameOf(t, spec.RunID))
		running := func() bool {
			c, err := w.cl.ContainerInspect(t.Context(), sidecar)
			return err == nil && c.State.Running
		}
		kept := make(chan error, 1)
		go func() {
			kept <- w.KeepSidecar(t.Context(), ref, func(d runner.SidecarDeath) { t.Errorf("heard of a death: %+v", d) })
		}()
		if err := w.Park(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if !running() {
			t.Error("a parked sandbox has lost its sidecar")
		}
		if err := w.Start(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		w.awaitProgram(t, ref, "sleep")
		if err := w.StopProcess(t.Context(), ref, "", time.Minute); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "the sidecar has ended", func() bool { return !running() })
		if e, err := w.Exit(t.Context(), ref); err != nil || e.Code != 143 {
			t.Errorf("%+v, %v", e, err)
		}
		if err := w.KillSandbox(t.Context(), ref); err != nil {
			t.Error(err)
		}
		if err := testenv.Await(t, "the end of KeepSidecar", kept); err != nil {
			t.Errorf("KeepSidecar: %v", err)
		}
	})
}
