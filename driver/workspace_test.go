package driver_test

import (
	"errors"
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
	create := func(session, volume string) (driver.Handle, error) {
		return d.Create(t.Context(), driver.Spec{SessionID: session, Sandbox: runner.SandboxSpec{
			RunID: uuid.New(), Labels: map[string]string{driver.NamespaceLabel: "team"},
			Task: &runner.TaskProcess{Argv: []string{"sleep", "3600"}, Mounts: []runner.TaskMount{{Volume: volume, Target: driver.WorkspacePath}}},
		}})
	}
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
