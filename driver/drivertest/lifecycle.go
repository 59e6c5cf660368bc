package drivertest

import (
	"errors"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func createInspectDestroy(t *testing.T, s *session) {
	h := s.create(t, "one")
	if h.State != driver.StateRunning || h.ID == "" {
		t.Errorf("handle %+v", h)
	}
	s.want(t, h.ID, driver.StateRunning)
	ok(t, s.Destroy(t.Context(), h.ID))
	s.want(t, h.ID, driver.StateGone)
}

func suspendResume(t *testing.T, s *session) {
	h := s.create(t, "one")
	for _, warm := range []bool{true, false} {
		for range 2 {
			ok(t, s.Suspend(t.Context(), h.ID, warm))
			s.want(t, h.ID, driver.StateSuspended)
		}
		for range 2 { // D30: on a running one it is nil
			ok(t, s.Resume(t.Context(), h.ID))
			s.want(t, h.ID, driver.StateRunning)
		}
	}
	// From warm to cold, and cold stays cold.
	ok(t, s.Suspend(t.Context(), h.ID, true))
	ok(t, s.Suspend(t.Context(), h.ID, false))
	s.used(t, 0)
	ok(t, s.Suspend(t.Context(), h.ID, true))
	s.used(t, 0)
}

func capacityAndParking(t *testing.T, s *session) {
	s.used(t, 0)
	h := s.create(t, "one")
	s.used(t, 1)
	ok(t, s.Suspend(t.Context(), h.ID, true))
	s.used(t, 1)
	ok(t, s.Suspend(t.Context(), h.ID, false))
	s.used(t, 0)
	s.wantVolumes(t, "rainier-ws-one") // a cold park keeps the workspace
	ok(t, s.Resume(t.Context(), h.ID))
	s.used(t, 1)
	ok(t, s.DestroyContainer(t.Context(), h.ID))
	s.used(t, 0)
}

func noSlot(t *testing.T, s *session) {
	s.create(t, "one")
	s.create(t, "two")
	_, err := s.Create(t.Context(), s.spec("three"))
	if !errors.Is(err, runner.ErrExhausted) || !strings.Contains(err.Error(), "no capacity: 2/2") {
		t.Errorf("a third of two: %v", err)
	}
	s.wantVolumes(t, "rainier-ws-one", "rainier-ws-two")
}

func coldResume(t *testing.T, s *session) {
	parked := s.create(t, "one")
	ok(t, s.Suspend(t.Context(), parked.ID, false))
	s.create(t, "two")
	three := s.create(t, "three")
	if err := s.Resume(t.Context(), parked.ID); !errors.Is(err, runner.ErrExhausted) {
		t.Errorf("resume without a slot: %v", err)
	}
	s.want(t, parked.ID, driver.StateSuspended)
	ok(t, s.DestroyContainer(t.Context(), three.ID))
	ok(t, s.Resume(t.Context(), parked.ID))
	s.want(t, parked.ID, driver.StateRunning)
}

func list(t *testing.T, s *session) {
	if l, err := s.List(t.Context()); len(l) != 0 || err != nil {
		t.Errorf("empty: %v, %v", l, err)
	}
	one, two := s.create(t, "one"), s.create(t, "two words")
	ok(t, s.Suspend(t.Context(), two.ID, false))
	l, err := s.List(t.Context())
	ok(t, err)
	got := map[driver.Listed]bool{}
	for _, e := range l {
		got[e] = true
	}
	for _, want := range []driver.Listed{
		{SessionID: "one", Handle: one},
		{SessionID: "two words", Handle: driver.Handle{ID: two.ID, State: driver.StateSuspended}}, // D31
	} {
		if !got[want] {
			t.Errorf("%+v is not in %+v", want, l)
		}
	}
	ok(t, s.Destroy(t.Context(), one.ID))
	if l, _ := s.List(t.Context()); len(l) != 1 {
		t.Errorf("after a destroy: %+v", l)
	}
}

func unknownIDs(t *testing.T, s *session) {
	s.want(t, "never", driver.StateGone)
	for name, err := range map[string]error{
		"suspend warm": s.Suspend(t.Context(), "never", true),
		"suspend cold": s.Suspend(t.Context(), "never", false),
		"resume":       s.Resume(t.Context(), "never"),
	} {
		if !errors.Is(err, runner.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	if _, err := s.Snapshot(t.Context(), "never", "", nil); err == nil {
		t.Error("D36: a snapshot of nothing")
	}
}

func teardownTolerance(t *testing.T, s *session) {
	h := s.create(t, "one")
	for range 2 {
		ok(t, s.DestroyContainer(t.Context(), h.ID))
	}
	ok(t, s.Destroy(t.Context(), h.ID))
	ok(t, s.Destroy(t.Context(), "never"))
}

func scriptSize(t *testing.T, s *session) {
	spec := s.spec("one")
	spec.Setup = strings.Repeat("x", driver.MaxSetupBytes+1)
	_, err := s.Create(t.Context(), spec)
	if !errors.Is(err, runner.ErrInvalid) || !strings.Contains(err.Error(), "524289") {
		t.Errorf("one byte over: %v", err)
	}
	s.wantVolumes(t)
	s.used(t, 0)
}
