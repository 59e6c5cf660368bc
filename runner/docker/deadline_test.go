package docker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// R3, D-12: an engine that never answers makes no method hang. Time is the
// bubble's, so the limits are exact and nobody waits.
func TestR3EngineThatNeverAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		do    func(ctx context.Context, w *fakeWorld) error
		limit time.Duration
	}{
		"CreateSandbox":   {func(ctx context.Context, w *fakeWorld) error { _, err := w.CreateSandbox(ctx, fakeSpec()); return err }, createTimeout + undoTimeout},
		"KillSandbox":     {func(ctx context.Context, w *fakeWorld) error { return w.KillSandbox(ctx, AgentName(uuid.New())) }, callTimeout},
		"StopSandbox":     {func(ctx context.Context, w *fakeWorld) error { return w.StopSandbox(ctx, AgentName(uuid.New())) }, callTimeout},
		"ListSandboxes":   {func(ctx context.Context, w *fakeWorld) error { _, err := w.ListSandboxes(ctx); return err }, callTimeout},
		"ImagePresent":    {func(ctx context.Context, w *fakeWorld) error { _, err := w.ImagePresent(ctx, "x"); return err }, callTimeout},
		"ImageRemove":     {func(ctx context.Context, w *fakeWorld) error { return w.ImageRemove(ctx, "x") }, layerTimeout},
		"RemoveToolImage": {func(ctx context.Context, w *fakeWorld) error { return w.RemoveToolImage(ctx) }, commitTimeout},
		"CreateVolume":    {func(ctx context.Context, w *fakeWorld) error { return w.CreateVolume(ctx, "x", nil) }, callTimeout},
		"RemoveVolume":    {func(ctx context.Context, w *fakeWorld) error { return w.RemoveVolume(ctx, "x") }, callTimeout},
		"EgressGateway":   {func(ctx context.Context, w *fakeWorld) error { _, err := w.EgressGateway(ctx); return err }, callTimeout},
		"RemoveEgress":    {func(ctx context.Context, w *fakeWorld) error { return w.RemoveEgressNetwork(ctx) }, callTimeout},
		"Pull":            {func(ctx context.Context, w *fakeWorld) error { return w.Pull(ctx, "x") }, defaultPullActivity},
		"Capabilities": {func(ctx context.Context, w *fakeWorld) error {
			w.forgetFacts()
			_, err := w.Capabilities(ctx)
			return err
		}, askTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFakeWorld(t)
				w.engine.stuck = true
				began := time.Now()
				err := tc.do(t.Context(), w)
				if !errors.Is(err, runner.ErrUnavailable) {
					t.Errorf("err = %v, want ErrUnavailable", err)
				}
				if took := time.Since(began); took > tc.limit {
					t.Errorf("took %v, limit %v", took, tc.limit)
				}
			})
		})
	}
}

// An engine whose disk is busy takes longer to delete the layers of an image than
// for an ordinary call, and purge waits for it.
func TestToolImageIsRemovedFromABusyEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.engine.stuck = true
		began := time.Now()
		w.RemoveToolImage(t.Context())
		if took := time.Since(began); took < 4*callTimeout {
			t.Errorf("given up after %v", took)
		}
	})
}

// The health check answers within seconds while a runtime hangs.
func TestR63ProbeAnswersWhileARuntimeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.findings.known = make(map[subject]*finding)
		w.engine.stuckOn = "ContainerStart probe"
		began := time.Now()
		f := w.Probe(t.Context())
		if took := time.Since(began); took > askTimeout+probeWait {
			t.Errorf("took %v", took)
		}
		if f.Healthy || f.Reason == "" {
			t.Errorf("%+v", f)
		}
		// The deadline of the probe itself passes, and it cleans up.
		time.Sleep(probeTimeout + clearTimeout)
		synctest.Wait()
		for _, x := range w.engine.labelled() {
			t.Errorf("left: %s", x)
		}
	})
}

// D-12: a creation that waits for the engine does not hold up the health check.
func TestD12ProbeWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.forgetFacts()
		w.engine.stuck = true
		ended := make(chan error)
		go func() { _, err := w.CreateSandbox(t.Context(), fakeSpec()); ended <- err }()
		synctest.Wait()
		began := time.Now()
		w.Probe(t.Context())
		if took := time.Since(began); took > askTimeout {
			t.Errorf("took %v", took)
		}
		if err := <-ended; !errors.Is(err, runner.ErrUnavailable) {
			t.Errorf("CreateSandbox: %v", err)
		}
	})
}

// K17: parallel creates are limited to the number of cores and one.
func TestK17ParallelStartsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.control.never = true
		const many = 20
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, many)
		for range many {
			go func() { _, err := w.CreateSandbox(ctx, fakeSpec()); ended <- err }()
		}
		synctest.Wait()
		n := 0
		for _, c := range w.engine.calls {
			if c == "ContainerCreate agent" {
				n++
			}
		}
		if n != cap(w.starts) {
			t.Errorf("%d at a time, want %d", n, cap(w.starts))
		}
		cancel()
		for range many {
			if err := <-ended; err == nil {
				t.Error("no error")
			}
		}
	})
}

// A pull has no deadline but one for standing still.
func TestPullThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.engine.pull = map[string]image.InspectResponse{"x": {ID: "x"}}
		w.engine.pullStalls = true
		began := time.Now()
		err := w.Pull(t.Context(), "x")
		if !errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), "no progress") {
			t.Errorf("err = %v", err)
		}
		if took := time.Since(began); took != defaultPullActivity {
			t.Errorf("took %v", took)
		}
	})
}
