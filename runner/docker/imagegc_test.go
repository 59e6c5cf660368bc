package docker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// The clean-up runs by itself, from the first probe or image on, until Close.
func TestBug21CleanupRunsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.opts.Images.KeepUnused = time.Minute
		w.engine.pull = map[string]image.InspectResponse{"new:1": {ID: "sha256:new"}}
		if _, err := w.ensureImage(t.Context(), "new:1", runner.ImageSource{}); err != nil {
			t.Fatal(err)
		}
		there := func() bool {
			ok, err := w.ImagePresent(t.Context(), "new:1")
			if err != nil {
				t.Error(err)
			}
			return ok
		}
		release := w.gc.want("sha256:new")
		w.Probe(t.Context())
		time.Sleep(10 * time.Minute)
		if !there() {
			t.Error("removed while a container of it is being made")
		}
		release()
		time.Sleep(30 * time.Second)
		if !there() {
			t.Error("removed before its time")
		}
		time.Sleep(2 * time.Minute)
		if there() {
			t.Error("an unused image stays")
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Bugs 21 and 22: the clean-up takes what this installation pulled, by id,
// once nothing of anyone's uses it, also in a new process.
func TestBug21And22ImageCleanup(t *testing.T) {
	w := newFakeWorld(t)
	w.opts.Images.KeepUnused = time.Minute
	w.engine.pull = map[string]image.InspectResponse{"new:1": {ID: "sha256:new"}, "other:1": {ID: "sha256:other"}}
	spec := fakeSpec()
	spec.Image = "new:1"
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ensureImage(t.Context(), "other:1", runner.ImageSource{}); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	collect := func(when string, want ...string) {
		t.Helper()
		if err := w.collectImages(t.Context(), later); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		for _, name := range []string{"agent:1", "new:1", "other:1"} {
			has := false
			for _, have := range want {
				has = has || have == name
			}
			if _, ok := w.engine.images[name]; ok != has {
				t.Errorf("%s: %s there: %v", when, name, ok)
			}
		}
	}
	if err := w.collectImages(t.Context(), time.Now()); err != nil || len(w.engine.images) < 3 {
		t.Errorf("before the delay: %v", err)
	}
	collect("while a sandbox uses one", "agent:1", "new:1")
	if err := w.KillSandbox(t.Context(), AgentName(spec.RunID)); err != nil {
		t.Fatal(err)
	}
	again, err := newRunner(w.opts, w.engine)
	if err != nil {
		t.Fatal(err)
	}
	w.Runner = again
	w.engine.before = func(_ int, call string) error {
		if strings.HasPrefix(call, "ImageRemove") {
			return fmt.Errorf("image is in use: %w", errdefs.ErrConflict)
		}
		return nil
	}
	later = later.Add(2 * time.Hour)
	collect("in use after all", "agent:1", "new:1")
	w.engine.before = nil
	// Somebody moved the name to another image: it is not ours any more.
	w.engine.images["new:1"] = image.InspectResponse{ID: "sha256:theirs"}
	later = later.Add(2 * time.Hour)
	collect("a name that moved", "agent:1", "new:1")
	if all, err := w.images.read(); err != nil || len(all) != 0 {
		t.Errorf("the book holds %v, %v", all, err)
	}
}

// D45: an image that the operator wants on the node is not unused.
func TestD45KeptImagesStay(t *testing.T) {
	w := newFakeWorld(t)
	w.opts.Images.KeepUnused, w.opts.Images.Keep = time.Minute, []string{"kept:1"}
	w.engine.pull = map[string]image.InspectResponse{"kept:1": {ID: "sha256:kept"}, "other:1": {ID: "sha256:other"}}
	for _, name := range []string{"kept:1", "other:1"} {
		if _, err := w.ensureImage(t.Context(), name, runner.ImageSource{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.collectImages(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	_, kept := w.engine.images["kept:1"]
	if _, other := w.engine.images["other:1"]; !kept || other {
		t.Errorf("kept: %v, other: %v", kept, other)
	}
}
