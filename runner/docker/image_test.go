package docker

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/docker/docker/api/types/image"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// R11, R68, B23: presence is asked by inspect, which knows digests and tags.
func TestR68ImagePresent(t *testing.T) {
	w := newFakeWorld(t)
	for ref, want := range map[string]bool{"agent:1": true, "sha256:agent": true, "other:1": false} {
		if got, err := w.ImagePresent(t.Context(), ref); got != want || err != nil {
			t.Errorf("%s: %v, %v", ref, got, err)
		}
	}
	w.engine.before = func(int, string) error { return errors.New("engine away") }
	if _, err := w.ImagePresent(t.Context(), "agent:1"); err == nil {
		t.Error("an engine that cannot be asked is an error")
	}
}

// S63: callers that want one image share one pull, and one that gives up does
// not end it for the others.
func TestS63OnePullForAll(t *testing.T) { synctest.Test(t, onePullForAll) }

func onePullForAll(t *testing.T) {
	w := newFakeWorld(t)
	w.engine.pull = map[string]image.InspectResponse{"new:1": {ID: "sha256:new"}}
	release := make(chan struct{})
	w.engine.before = func(_ int, call string) error {
		if strings.HasPrefix(call, "ImagePull") {
			<-release
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- w.Pull(ctx, "new:1") }()
	var others sync.WaitGroup
	for range 5 {
		others.Go(func() {
			if err := w.Pull(t.Context(), "new:1"); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait() // all of them wait for the pull
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that gave up: %v", err)
	}
	close(release)
	others.Wait()
	if n := countOf(w.engine.calls, "ImagePull new:1"); n != 1 {
		t.Errorf("%d pulls", n)
	}
	if _, ok := w.engine.images["new:1"]; !ok {
		t.Error("not there")
	}
}

// The engine reports failures inside the stream of an answer that began well.
func TestFollowPull(t *testing.T) {
	for name, tc := range map[string]struct {
		stream, want string
		steps        int
	}{
		"good":      {`{"status":"a"}{"status":"b"}`, "", 2},
		"error":     {`{"status":"a"}{"error":"manifest unknown","errorDetail":{"message":"manifest unknown"}}`, "manifest unknown", 1},
		"old error": {`{"error":"no space left"}`, "no space left", 0},
		"cut":       {`{"status":`, "unexpected EOF", 0},
	} {
		steps := 0
		err := followPull(strings.NewReader(tc.stream), func(pullMessage) { steps++ })
		if steps != tc.steps || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v after %d steps", name, err, steps)
		}
	}
	broken := io.MultiReader(strings.NewReader(`{"status":"a"}`), errReader{})
	if err := followPull(broken, func(pullMessage) {}); err == nil {
		t.Error("a broken stream passes")
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// K30: the tools image is used by id and checked each time; the wrong one under
// that id is refused.
func TestK30ToolsImageByID(t *testing.T) {
	w := newFakeWorld(t)
	if id, err := w.toolImage(t.Context()); err != nil || id != "sha256:tools" {
		t.Fatalf("%s, %v", id, err)
	}
	w.engine.images = map[string]image.InspectResponse{"sha256:tools": {ID: "sha256:other"}}
	if _, err := w.toolImage(t.Context()); err == nil || !strings.Contains(err.Error(), "sha256:other") {
		t.Errorf("err = %v", err)
	}
}

// Another installation removes the image, which is its own as well, right after
// it was loaded.
func TestToolsImageThatIsRemovedAtOnce(t *testing.T) {
	for removals, ok := range map[int]bool{0: true, 2: true, 1000: false} {
		w := newFakeWorld(t)
		loads := 0
		w.engine.after = func(_ int, call string) error {
			if call == "ImageLoad" {
				if loads++; loads <= removals {
					delete(w.engine.images, "tools")
				}
			}
			return nil
		}
		if _, err := w.toolImage(t.Context()); (err == nil) != ok || loads != min(removals+1, toolLoads) {
			t.Errorf("%d removals: %v after %d loads", removals, err, loads)
		}
	}
}

// R69: an absent image needs no removing.
func TestR69ImageRemove(t *testing.T) {
	w := newFakeWorld(t)
	for range 2 {
		if err := w.ImageRemove(t.Context(), "agent:1"); err != nil {
			t.Error(err)
		}
	}
	w.engine.before = func(int, string) error { return errors.New("engine away") }
	if err := w.ImageRemove(t.Context(), "agent:1"); err == nil || errors.Is(err, runner.ErrNotFound) {
		t.Errorf("err = %v", err)
	}
}
