package drivertest

import (
	"errors"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func destroyTakesBoth(t *testing.T, s *session) {
	h := s.create(t, "one")
	s.create(t, "two")
	s.wantVolumes(t, "rainier-ws-one", "rainier-ws-two")
	ok(t, s.Destroy(t.Context(), h.ID))
	s.wantVolumes(t, "rainier-ws-two")
}

func crashKeepsWorkspace(t *testing.T, s *session) {
	h := s.create(t, "one")
	ok(t, s.DestroyContainer(t.Context(), h.ID))
	s.want(t, h.ID, driver.StateGone)
	s.used(t, 0)
	s.wantVolumes(t, "rainier-ws-one")
	for range 2 { // D51
		ok(t, s.RemoveWorkspace(t.Context(), "one"))
		s.wantVolumes(t)
	}
}

func removeWorkspace(t *testing.T, s *session) {
	ok(t, s.DestroyContainer(t.Context(), s.create(t, "one").ID))
	ok(t, s.RemoveWorkspace(t.Context(), ""))
	ok(t, s.RemoveWorkspace(t.Context(), "never"))
	ok(t, s.RemoveWorkspace(t.Context(), "on")) // exact, never a prefix
	s.wantVolumes(t, "rainier-ws-one")
}

func workspaceInUse(t *testing.T, s *session) {
	h := s.create(t, "one")
	if err := s.RemoveWorkspace(t.Context(), "one"); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("in use: %v, want ErrPrecondition", err)
	}
	s.wantVolumes(t, "rainier-ws-one")
	s.want(t, h.ID, driver.StateRunning)
}

func homeSurvives(t *testing.T, s *session) {
	with := func(id string) driver.Spec {
		spec := s.spec(id)
		spec.Home = &driver.HomeMount{Volume: "rainier-home-drivertest", Path: "/home/agent"}
		return spec
	}
	one, err := s.Create(t.Context(), with("one"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Create(t.Context(), with("two"))
	if err != nil {
		t.Fatal(err)
	}
	ok(t, s.Destroy(t.Context(), one.ID))
	s.want(t, two.ID, driver.StateRunning)
	s.wantVolumes(t, "rainier-home-drivertest", "rainier-ws-two")
	ok(t, s.Destroy(t.Context(), two.ID))
	s.wantVolumes(t, "rainier-home-drivertest")
}
