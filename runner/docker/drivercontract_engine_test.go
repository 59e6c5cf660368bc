package docker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/driver/drivertest"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

var (
	_ driver.Engine        = (*Runner)(nil)
	_ driver.VolumeChecker = (*Runner)(nil)
)

// TestD57DriverContract holds the driver over a real engine to the session
// contract, under one runtime after the other, since volumes bear the names of
// its sessions. What sessions are confined by is another suite's: here they have
// no network.
func TestD57DriverContract(t *testing.T) {
	image := testenv.Image(t)
	testenv.EachClass(t, func(t *testing.T, class string) {
		drivertest.Run(t, func(t *testing.T, slots int) drivertest.Subject {
			w := newWorld(t)
			for _, rt := range testenv.Runtimes(t) {
				w.assumeWorks(t, classFor(rt), rt)
			}
			t.Cleanup(func() { w.removeSessions(t) })
			return drivertest.Subject{
				Driver:  driver.NewDocker(w.Runner, driver.DockerOpts{TotalSlots: slots}),
				Volumes: func() []string { return w.volumeNames(t) },
				ImageEnv: func(t *testing.T, ref string) []string {
					i, err := w.inspectFull(t.Context(), ref)
					if err != nil {
						t.Fatal(err)
					}
					return i.Config.Env
				},
				Spec: func(id string) driver.Spec {
					return driver.Spec{SessionID: id, Sandbox: runner.SandboxSpec{
						RunID: uuid.New(), Image: image, ConfinementClass: types.ConfinementClass(class),
						Task: &runner.TaskProcess{
							Argv: []string{"sleep", "98765"}, User: "1000:1000", NoNetwork: true,
							Mounts: []runner.TaskMount{{Volume: driver.WorkspaceVolume(id), Target: driver.WorkspacePath}},
						},
					}}
				},
			}
		})
	})
}

func (w *world) volumeNames(t *testing.T) (names []string) {
	t.Helper()
	all, err := w.ListVolumes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names
}

// removeSessions removes all that sessions of this world have and keep.
func (w *world) removeSessions(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	boxes, err := w.ListSandboxes(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, b := range boxes {
		if err := w.KillSandbox(ctx, b.Ref); err != nil {
			t.Error(err)
		}
	}
	vols, err := w.ListVolumes(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, v := range vols {
		if err := w.RemoveVolume(ctx, v.Name); err != nil {
			t.Error(err)
		}
	}
	images, err := w.ListOwnImages(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, i := range images {
		if err := w.RemoveOwnImage(ctx, i.Ref); err != nil {
			t.Error(err)
		}
	}
}
