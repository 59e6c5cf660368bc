// Package drivertest holds every implementation of driver.Driver to the
// session contract. The checks cite its numbers (D).
package drivertest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
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
