package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// heard collects what a task is told.
type heard struct {
	mu   sync.Mutex
	said []string
}

func (h *heard) tell(s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, s)
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.said, "\n")
}

// slowPull is a pull that says a word each 20 seconds, for as long as it is told.
func slowPull(w *fakeWorld, words int) {
	pr, pw := io.Pipe()
	w.engine.pull = map[string]image.InspectResponse{"new:1": {ID: "sha256:new"}}
	w.engine.says = pr
	go func() {
		for i := range words {
			fmt.Fprintf(pw, `{"id":"l","status":"Downloading","progressDetail":{"current":%d,"total":%d}}`, (i+1)*mib, words*mib)
			time.Sleep(20 * time.Second)
		}
		pw.Close()
	}()
}

// Bugs 19 and 25: a pull is shared, each waiter has a limit of its own, and no
// other limit cuts it; whoever waits is told how far it is.
func TestBug19And25WaitersHaveTheirOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		slowPull(w, 300) // 100 minutes
		var hasty, patient heard
		wait := func(h *heard, limit time.Duration) error {
			return w.pullFor(t.Context(), "new:1", runner.ImageSource{Timeout: limit, Notify: h.tell})
		}
		first := make(chan error, 1)
		go func() { first <- wait(&hasty, 65*time.Second) }()
		synctest.Wait()
		if err := wait(&patient, 3*time.Hour); err != nil {
			t.Errorf("the patient one: %v", err)
		}
		err := <-first
		if !errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), "not done within 1m5s, 4 of 300 MiB (option image_pull_timeout)") {
			t.Errorf("the hasty one: %v", err)
		}
		if got, want := hasty.all(), "Pulling image new:1\nPulling image new:1: 2 of 300 MiB\nPulling image new:1: 3 of 300 MiB"; got != want && got != strings.Replace(want, "3 of", "4 of", 1) {
			t.Errorf("told: %s", got)
		}
		if n := strings.Count(patient.all(), "MiB"); n < 190 || n > 200 {
			t.Errorf("told %d times in 100 minutes", n)
		}
		pulls := 0
		for _, c := range w.engine.calls {
			if c == "ImagePull new:1" {
				pulls++
			}
		}
		if pulls != 1 {
			t.Errorf("%d pulls", pulls)
		}
	})
}

// A pull for which nobody waits any more ends, and does not hold up the next.
func TestPullEndsWithItsLastWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.engine.pull = map[string]image.InspectResponse{"x": {ID: "x"}}
		w.engine.pullStalls = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := w.Pull(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		synctest.Wait()
		w.pulls.mu.Lock()
		defer w.pulls.mu.Unlock()
		if len(w.pulls.at) != 0 {
			t.Error("the pull goes on")
		}
	})
}

// Bug 18: an error that comes inside the stream reaches everyone who waits.
func TestBug18StreamErrorsReachAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.engine.pull = map[string]image.InspectResponse{"x": {ID: "x"}}
		pr, pw := io.Pipe()
		w.engine.says = pr
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := w.Pull(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "planted") {
					t.Errorf("err = %v", err)
				}
			})
		}
		synctest.Wait()
		io.WriteString(pw, `{"status":"begun"}{"error":"planted"}`)
		all.Wait()
	})
}

// Bug 20: unpacking counts as activity, although nothing is downloaded.
func TestBug20UnpackingIsActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t)
		w.engine.pull = map[string]image.InspectResponse{"x": {ID: "x"}}
		pr, pw := io.Pipe()
		w.engine.says = pr
		go func() {
			for range 8 {
				io.WriteString(pw, `{"id":"l","status":"Extracting"}`)
				time.Sleep(defaultPullActivity - time.Second)
			}
			pw.Close()
		}()
		if err := w.pullFor(t.Context(), "x", runner.ImageSource{Timeout: time.Hour}); err != nil {
			t.Error(err)
		}
	})
}

// wants is a registry that gives ref's digest for one password only.
func wants(password string) func(ref, auth string) error {
	return func(_, auth string) error {
		var a registry.AuthConfig
		if b, err := base64.URLEncoding.DecodeString(auth); err == nil {
			json.Unmarshal(b, &a)
		}
		if a.Password != password {
			return fmt.Errorf("unauthorized: authentication required: %w", errdefs.ErrUnauthenticated)
		}
		return nil
	}
}

// K30: a present image of a registry that wants credentials is for those who
// have them, also after another job has pulled it.
func TestK30PresentImageNeedsItsCredentials(t *testing.T) {
	w := newFakeWorld(t)
	const ref = "r.example.org/acme/agent:1"
	w.engine.images[ref] = image.InspectResponse{ID: "sha256:p", RepoTags: []string{ref}, RepoDigests: []string{"r.example.org/acme/agent@sha256:" + strings.Repeat("a", 64)}}
	get := func(password string, soft bool) error {
		src := runner.ImageSource{AuthSoftFail: soft}
		if password != "" {
			src.Auth = &runner.RegistryAuth{Username: "u", Password: password}
		}
		_, err := w.ensureImage(t.Context(), ref, src)
		return err
	}
	w.engine.admits = wants("right")
	if err := get("right", false); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "wrong"} {
		for _, soft := range []bool{true, false} {
			if err := get(bad, soft); !errors.Is(err, runner.ErrDenied) || !strings.Contains(err.Error(), "auth block") || strings.Contains(err.Error(), "wrong") {
				t.Errorf("password %q, soft %v: %v", bad, soft, err)
			}
		}
	}
	w.engine.admits = nil // the registry is away
	if err := get("right", false); err != nil {
		t.Errorf("asked again: %v", err)
	}
	if err := get("", false); !errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), "trust_present") {
		t.Errorf("a registry that is away: %v", err)
	}
	w.opts.Images.TrustPresent = true
	if err := get("", false); err != nil {
		t.Error(err)
	}
}

// K30, D-14: an image is not to be had by its id or the beginning of it.
func TestK30NoImageByID(t *testing.T) {
	w := newFakeWorld(t)
	w.engine.images["abc123"] = image.InspectResponse{ID: "sha256:abc1234", RepoTags: []string{"wardyn-snap/team/x:1"}}
	if _, err := w.ensureImage(t.Context(), "abc123", runner.ImageSource{}); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("err = %v", err)
	}
	w.engine.images["none"] = image.InspectResponse{ID: "sha256:n", RepoTags: []string{"none:2"}}
	if _, err := w.ensureImage(t.Context(), "none", runner.ImageSource{}); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("another tag: %v", err)
	}
}
