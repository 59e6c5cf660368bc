package driver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// K39: a named workspace is one session's at a time, and free again after it.
func TestK39NamedWorkspaceIsExclusive(t *testing.T) {
	e := runnertest.New(runnertest.Options{})
	d := driver.NewDocker(e, driver.DockerOpts{Image: "i"})
	volume := driver.NamedWorkspace("team", "web")
	create := func(session, volume string) (driver.Handle, error) { return inWorkspace(t, d, session, volume) }
	one, err := create("one", volume)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create("two", volume); !errors.Is(err, runner.ErrExhausted) {
		t.Errorf("while it is in use: %v", err)
	}
	if _, err := create("three", driver.NamedWorkspace("team", "other")); err != nil {
		t.Errorf("another workspace: %v", err)
	}
	if err := d.Suspend(t.Context(), one.ID, true); err != nil {
		t.Fatal(err)
	}
	if _, err := create("two", volume); !errors.Is(err, runner.ErrExhausted) {
		t.Errorf("while its user is frozen: %v", err)
	}
	if err := d.DestroyContainer(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := create("two", volume); err != nil {
		t.Errorf("after its user: %v", err)
	}
}

// K39, K14: a session that is parked does not hold its workspace, and has to have
// it for itself again before it goes on.
func TestK39ResumeNeedsTheWorkspace(t *testing.T) {
	e := runnertest.New(runnertest.Options{})
	d := driver.NewDocker(e, driver.DockerOpts{Image: "i"})
	volume := driver.NamedWorkspace("team", "web")
	parked, err := inWorkspace(t, d, "parked", volume)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Suspend(t.Context(), parked.ID, false); err != nil {
		t.Fatal(err)
	}
	other, err := inWorkspace(t, d, "other", volume)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Resume(t.Context(), parked.ID)
	if !errors.Is(err, driver.ErrInUse) || !errors.Is(err, runner.ErrExhausted) || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("resume beside its other user: %v", err)
	}
	if used, _, err := d.Capacity(t.Context()); used != 1 || err != nil {
		t.Errorf("%d slots after a refused resume, %v", used, err)
	}
	if err := d.DestroyContainer(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Resume(t.Context(), parked.ID); err != nil {
		t.Errorf("resume when it is free: %v", err)
	}
	if _, err := inWorkspace(t, d, "third", volume); !errors.Is(err, driver.ErrInUse) {
		t.Errorf("while the resumed one uses it: %v", err)
	}
}

// inWorkspace creates a session with a named workspace.
func inWorkspace(t *testing.T, d *driver.Docker, session, volume string) (driver.Handle, error) {
	return d.Create(t.Context(), driver.Spec{SessionID: session, Sandbox: runner.SandboxSpec{
		RunID: uuid.New(), Labels: map[string]string{driver.NamespaceLabel: "team"},
		Task: &runner.TaskProcess{Argv: []string{"sleep", "3600"}, Mounts: []runner.TaskMount{{Volume: volume, Target: driver.WorkspacePath}}},
	}})
}
