package driver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/driver/drivertest"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

var (
	_ driver.Engine        = (*runnertest.Fake)(nil)
	_ driver.VolumeChecker = (*runnertest.Fake)(nil)
)

// overFake is a Docker driver over an engine in memory.
func overFake(_ *testing.T, slots int) drivertest.Subject {
	e := runnertest.New(runnertest.Options{})
	return drivertest.Subject{
		Driver: driver.NewDocker(e, driver.DockerOpts{Image: "base", TotalSlots: slots}),
		Volumes: func() (volumes []string) {
			for _, l := range e.Left() {
				if v, ok := strings.CutPrefix(l, "volume:"); ok {
					volumes = append(volumes, v)
				}
			}
			return volumes
		},
	}
}

// TestContract holds both drivers to the same promises (D57).
func TestContract(t *testing.T) {
	t.Run("Docker", func(t *testing.T) { drivertest.Run(t, overFake) })
	t.Run("Fake", func(t *testing.T) {
		drivertest.Run(t, func(_ *testing.T, slots int) drivertest.Subject {
			f := driver.NewFake(slots)
			return drivertest.Subject{Driver: f, Volumes: f.Volumes}
		})
	})
}

func TestD45Prepull(t *testing.T) {
	for _, d := range []driver.Driver{overFake(t, 1).Driver, driver.NewFake(1)} {
		if err := d.Prepull(t.Context(), "image"); err != nil {
			t.Error(err)
		}
		if err := d.Prepull(t.Context(), ""); !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("no image: %v", err)
		}
	}
}
