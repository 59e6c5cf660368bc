package docker

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	engine "github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// versioned is a fake engine that tells its parts' versions.
type versioned struct{ *fakeEngine }

func (versioned) ServerVersion(context.Context) (engine.Version, error) {
	return engine.Version{Components: []engine.ComponentVersion{{Name: "containerd", Version: "1.7"}, {Name: "runc", Version: "1.1"}}}, nil
}

// TestInspectMakesNothing: what an engine says of itself, of its networks and
// of a task is found out by asking alone.
func TestInspectMakesNothing(t *testing.T) {
	f := newFakeEngine()
	f.info.CgroupDriver, f.info.CgroupVersion = "systemd", "2"
	f.info.SecurityOptions = []string{"name=apparmor", "name=seccomp,profile=builtin"}
	f.info.Runtimes = map[string]system.RuntimeWithStatus{
		"runc":  {Runtime: system.Runtime{Path: "runc"}},
		"runsc": {Runtime: system.Runtime{Path: filepath.Join(t.TempDir(), "none"), Args: []string{"--overlay2=none"}}},
	}
	f.networks["1"] = &network.Inspect{ID: "1", Name: "theirs", IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.1.2.3/24"}, {Subnet: "fd00::/64"}}}}
	f.networks["2"] = &network.Inspect{ID: "2", Name: "ours", Labels: map[string]string{labelInstance: "me"}}
	f.images["foreign:1"] = image.InspectResponse{ID: "sha256:f", Architecture: "s390x", Os: "linux"}
	i := &Inspector{&Runner{api: versioned{f}}}
	s, err := i.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Containerd != "1.7" || s.Runc != "1.1" || !s.Seccomp || !s.AppArmor || s.SELinux || s.UserNamespaces || s.CgroupDriver != "systemd" ||
		len(s.Runtimes) != 2 || s.Runtimes[0].Missing || !s.Runtimes[1].Missing || !slices.Equal(s.Runtimes[1].Args, []string{"--overlay2=none"}) {
		t.Errorf("%+v", s)
	}
	slices.SortFunc(s.Networks, func(a, b EngineNetwork) int { return strings.Compare(a.Name, b.Name) })
	if n := s.Networks; len(n) != 2 || n[0].Instance != "me" || len(n[1].Subnets) != 2 || n[1].Subnets[0].String() != "10.1.2.0/24" || n[1].Instance != "" {
		t.Errorf("%+v", n)
	}
	if rt, err := s.Runtime(types.CC2, ""); rt != "runsc" || err != nil {
		t.Errorf("CC2: %q, %v", rt, err)
	}
	for _, c := range []struct {
		image, workDir string
		present        bool
		err            string
	}{
		{"absent:1", "", false, ""},
		{"absent:1", "relative", false, "work_dir"},
		{"foreign:1", "", true, "s390x"},
		{"foreign:1", "relative", true, "want an absolute path\nimage foreign:1 is for linux/s390x"},
	} {
		spec := runner.SandboxSpec{RunID: [16]byte{1}, Image: c.image, Task: &runner.TaskProcess{
			Idle: true, WorkDir: c.workDir, Mounts: []runner.TaskMount{{Source: "/not/there/yet", Target: "/x"}},
		}}
		present, errs := i.CheckSandbox(t.Context(), s, spec, runner.Resources{})
		err := errors.Join(errs...)
		if err != nil && (strings.Contains(err.Error(), "invalid") || strings.Count(err.Error(), "\n")+1 != len(errs)) {
			t.Errorf("%s %s: %q", c.image, c.workDir, errs)
		}
		if present != c.present || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %s: %v, %v", c.image, c.workDir, present, err)
		}
		if len(spec.Task.Mounts) != 1 {
			t.Error("the caller's spec was changed")
		}
	}
	for _, call := range f.calls {
		if strings.Contains(call, "Create") || strings.Contains(call, "Pull") || strings.Contains(call, "Load") || strings.Contains(call, "Start") {
			t.Errorf("%s was called", call)
		}
	}
	// Seccomp switched off, and an engine that maps users.
	f.info.SecurityOptions = []string{"name=seccomp,profile=unconfined", "name=userns"}
	i.runner.forgetFacts()
	if s, err = i.Inspect(t.Context()); err != nil || s.Seccomp || !s.UserNamespaces {
		t.Errorf("%+v, %v", s, err)
	}
}
