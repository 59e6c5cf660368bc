package docker

import (
	"errors"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// R56-R60, T46, T47, B36: which runtime gives which class.
func TestR56ResolveRuntime(t *testing.T) {
	all := []string{"crun", "kata-fc", "kata-qemu", "krun", "runc", "runsc", "runsc-ptrace", "sysbox-runc"}
	for _, tc := range []struct {
		name     string
		class    types.ConfinementClass
		runtimes []string
		def, pin string
		want     string // "" is an error
	}{
		{"CC1 is runc by name", types.CC1, all, "runsc", "", "runc"},
		{"CC1 without runc is the default", types.CC1, []string{"crun"}, "crun", "", "crun"},
		{"CC1 pinned to anything", types.CC1, all, "runc", "sysbox-runc", "sysbox-runc"},
		{"CC1 pinned to what is not there", types.CC1, []string{"runc"}, "runc", "crun", ""},
		{"CC1 with nothing", types.CC1, nil, "", "", ""},
		{"CC2 prefers the exact name", types.CC2, all, "runc", "", "runsc"},
		{"CC2 takes the first of the family", types.CC2, []string{"runc", "runsc-a", "runsc-b"}, "runc", "", "runsc-a"},
		{"CC2 in containerd's spelling", types.CC2, []string{"io.containerd.runsc.v1", "runc"}, "runc", "", "io.containerd.runsc.v1"},
		{"CC2 absent", types.CC2, []string{"runc"}, "runc", "", ""},
		{"CC2 pinned within the family", types.CC2, all, "runc", "runsc-ptrace", "runsc-ptrace"},
		{"CC2 pinned to runc", types.CC2, all, "runc", "runc", ""},
		{"CC3 prefers kata", types.CC3, all, "runc", "", "kata-fc"},
		{"CC3 falls to krun", types.CC3, []string{"krun", "runc"}, "runc", "", "krun"},
		{"CC3 is never crun", types.CC3, []string{"crun", "runc"}, "runc", "", ""},
		{"CC3 pinned to runsc", types.CC3, all, "runc", "runsc", ""},
		{"CC3 pinned to runc in containerd's spelling", types.CC3, []string{"io.containerd.runc.v2"}, "runc", "io.containerd.runc.v2", ""},
		{"CC3 pinned to what the operator vouches for", types.CC3, []string{"firecracker", "runc"}, "runc", "firecracker", "firecracker"},
		{"no such class", "CC4", all, "runc", "", ""},
		{"classes are exact", "cc2", all, "runc", "", ""},
	} {
		got, err := resolveRuntime(tc.class, hostFacts{Runtimes: tc.runtimes, DefaultRuntime: tc.def}, tc.pin)
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: %q, %v; want %q", tc.name, got, err, tc.want)
		}
		if err != nil && !errors.Is(err, runner.ErrClassUnavailable) {
			t.Errorf("%s: %v does not wrap ErrClassUnavailable", tc.name, err)
		}
	}
}
