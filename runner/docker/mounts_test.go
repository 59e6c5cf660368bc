package docker

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/mount"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// K26: a named volume is mounted as one, and its fields do not mix with a bind's.
func TestK26VolumeMounts(t *testing.T) {
	in := goldenAgent(types.CC1, "runc")
	in.Spec.Task.Mounts = []runner.TaskMount{{Volume: "v", Target: "/kept", ReadOnly: true, NoCopy: true}, {Volume: "w", Target: "/w"}}
	got := agentMounts(in)
	v, w := got[len(got)-2], got[len(got)-1]
	if v.Type != mount.TypeVolume || v.Source != "v" || v.Target != "/kept" || !v.ReadOnly || !v.VolumeOptions.NoCopy || v.BindOptions != nil {
		t.Errorf("%+v", v)
	}
	if w.VolumeOptions != nil || w.ReadOnly {
		t.Errorf("%+v", w)
	}
	for _, m := range []runner.TaskMount{{Volume: "v", Source: "/x", Target: "/y"}, {Volume: "v", Target: "/proc/x"}, {Volume: "v", Target: "/y", Propagation: "rslave"}} {
		if checkTaskMount(m) == nil {
			t.Errorf("%+v is taken", m)
		}
	}
}

// T43, K33: a client's read-only mount with a file system mounted below it is
// refused where that would stay writable, and taken where it would not.
func TestT43ClientMountsBelow(t *testing.T) {
	dir := t.TempDir()
	mountTmpfs(t, dir)
	spec := fakeSpec()
	spec.Task.Mounts = []runner.TaskMount{{Source: dir, Target: "/data", ReadOnly: true}}
	old, fresh := hostFacts{Major: 20}, hostFacts{Major: 28, RecursiveReadOnly: []string{"runc"}}
	if errs := checkMounts(spec, old, "runc", nil); !errors.Is(errors.Join(errs...), runner.ErrDenied) {
		t.Errorf("old engine: %v", errs)
	}
	if errs := checkMounts(spec, fresh, "runc", nil); len(errs) > 0 {
		t.Errorf("new engine: %v", errs)
	}
	if errs := checkMounts(spec, fresh, "runsc", nil); !errors.Is(errors.Join(errs...), runner.ErrDenied) {
		t.Errorf("new engine, gVisor: %v", errs)
	}
	spec.Task.Mounts[0].ReadOnly = false
	if errs := checkMounts(spec, old, "runc", nil); len(errs) > 0 {
		t.Errorf("writable: %v", errs)
	}
}

// An image cannot declare a volume where the sandbox has its own: the task is
// refused for good, before the engine is asked.
func TestImageVolumesAtReservedPlaces(t *testing.T) {
	for place, ok := range map[string]bool{"/data": true, "/var/lib/x/": true, "/proc/x": false, "/dev": false, "/.wardyn": false, "/etc": false} {
		img := imageFacts{OS: "linux", Arch: "amd64", Cmd: []string{"x"}, Volumes: []string{place}}
		err := checkImage(fakeSpec(), img, hostFacts{Arch: "amd64"})
		if (err == nil) != ok || err != nil && (!errors.Is(err, runner.ErrInvalid) || !strings.Contains(err.Error(), place)) {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// K30: an image cannot keep engine and driver busy with volumes without end.
func TestK30ImageVolumesAreCounted(t *testing.T) {
	for n, ok := range map[int]bool{maxImageVolumes: true, maxImageVolumes + 1: false, 400_000: false} {
		img := imageFacts{OS: "linux", Arch: "amd64", Cmd: []string{"x"}}
		for i := range n {
			img.Volumes = append(img.Volumes, fmt.Sprintf("/v%d", i))
		}
		err := checkImage(fakeSpec(), img, hostFacts{Arch: "amd64"})
		if (err == nil) != ok || err != nil && (!errors.Is(err, runner.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("declares %d volumes", n))) {
			t.Errorf("%d volumes: %v", n, err)
		}
	}
}
