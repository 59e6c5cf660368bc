package drivertest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func snapshotRefs(t *testing.T, s *session) {
	h := s.create(t, "one")
	seen := map[string]bool{}
	for range 2 {
		snap, err := s.Snapshot(t.Context(), h.ID, "", nil)
		if err != nil || snap.Ref == "" || seen[snap.Ref] {
			t.Errorf("minted %q, %v", snap.Ref, err)
		}
		seen[snap.Ref] = true
	}
	const ref = "rainier-env:drivertest-0123456789ab"
	if snap, err := s.Snapshot(t.Context(), h.ID, ref, nil); err != nil || snap.Ref != ref {
		t.Errorf("explicit: %q, %v", snap.Ref, err)
	}
	s.want(t, h.ID, driver.StateRunning)
}

func strip(t *testing.T, s *session) {
	spec := s.spec("one")
	spec.Env = map[string]string{"KEY": "a value of the session"}
	h, err := s.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "A=B", "A B"} {
		if _, err := s.Snapshot(t.Context(), h.ID, "", []string{bad}); !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	snap, err := s.Snapshot(t.Context(), h.ID, "", []string{"KEY"})
	if err != nil || s.subject.ImageEnv == nil {
		ok(t, err)
		return
	}
	env := s.subject.ImageEnv(t, snap.Ref)
	if !slices.Contains(env, "KEY=") || strings.Contains(strings.Join(env, " "), "of the session") {
		t.Errorf("environment %q", env)
	}
}
