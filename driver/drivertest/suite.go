// Package drivertest holds every implementation of driver.Driver to the
// session contract. The checks cite its numbers (D).
package drivertest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Subject is what is tested.
type Subject struct {
	Driver driver.Driver
	// Volumes names the volumes there are, sorted.
	Volumes func() []string
	// Spec is a session that runs until it is ended, with a workspace; nil asks
	// for the driver's own.
	Spec func(sessionID string) driver.Spec
	// ImageEnv is the environment in the configuration of a snapshot; nil when
	// there are no real images.
	ImageEnv func(t *testing.T, ref string) []string
}

// checks are the contract's, by name.
var checks = map[string]func(*testing.T, *session){
	"D6CreateInspectDestroy":  createInspectDestroy,
	"D29SuspendResume":        suspendResume,
	"D33CapacityAndParking":   capacityAndParking,
	"D34List":                 list,
	"D46DestroyTakesBoth":     destroyTakesBoth,
	"D48CrashKeepsWorkspace":  crashKeepsWorkspace,
	"D49RemoveWorkspace":      removeWorkspace,
	"D50TeardownTolerance":    teardownTolerance,
	"D55UnknownIds":           unknownIDs,
	"D3ScriptSize":            scriptSize,
	"D52WorkspaceInUse":       workspaceInUse,
	"D7NothingWithoutASlot":   noSlot,
	"D35ColdResumeNeedsASlot": coldResume,
	"D37D38SnapshotRefs":      snapshotRefs,
	"D39D40Strip":             strip,
	"D47HomeSurvives":         homeSurvives,
}

// Run holds a driver to the contract. mk makes one with that many slots and
// nothing in it; it is called for each check, and cleans up after the test.
func Run(t *testing.T, mk func(t *testing.T, slots int) Subject) {
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		t.Run(name, func(t *testing.T) {
			s := mk(t, 2)
			checks[name](t, &session{Driver: s.Driver, subject: s})
		})
	}
}

type session struct {
	driver.Driver
	subject Subject
}

func (s *session) spec(id string) driver.Spec {
	if s.subject.Spec == nil {
		return driver.Spec{SessionID: id}
	}
	return s.subject.Spec(id)
}

func (s *session) create(t *testing.T, id string) driver.Handle {
	t.Helper()
	h, err := s.Create(t.Context(), s.spec(id))
	if err != nil {
		t.Fatalf("create %q: %v", id, err)
	}
	return h
}

func (s *session) want(t *testing.T, id string, want driver.State) {
	t.Helper()
	h, err := s.Inspect(t.Context(), id)
	if err != nil || h.ID != id || h.State != want {
		t.Errorf("inspect: %+v, %v; want %s of %s", h, err, want, id)
	}
}

func (s *session) used(t *testing.T, want int) {
	t.Helper()
	used, total, err := s.Capacity(t.Context())
	if used != want || total != 2 || err != nil {
		t.Errorf("capacity %d/%d, %v; want %d/2", used, total, err, want)
	}
}

func (s *session) wantVolumes(t *testing.T, want ...string) {
	t.Helper()
	if got := s.subject.Volumes(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("volumes %q, want %q", got, want)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

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

func teardownTolerance(t *testing.T, s *session) {
	h := s.create(t, "one")
	for range 2 {
		ok(t, s.DestroyContainer(t.Context(), h.ID))
	}
	ok(t, s.Destroy(t.Context(), h.ID))
	ok(t, s.Destroy(t.Context(), "never"))
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

func workspaceInUse(t *testing.T, s *session) {
	h := s.create(t, "one")
	if err := s.RemoveWorkspace(t.Context(), "one"); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("in use: %v, want ErrPrecondition", err)
	}
	s.wantVolumes(t, "rainier-ws-one")
	s.want(t, h.ID, driver.StateRunning)
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
