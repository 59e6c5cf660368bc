package docker

import (
	"slices"
	"testing"

	"github.com/docker/docker/api/types/system"
)

func TestFactsOf(t *testing.T) {
	f := factsOf(system.Info{
		ServerVersion: "28.5.2", Architecture: "aarch64", NCPU: 4,
		SecurityOptions: []string{"name=apparmor", "name=seccomp,profile=builtin", "name=selinux", "name=userns"},
		Runtimes: map[string]system.RuntimeWithStatus{
			"runc":  {Status: map[string]string{"org.opencontainers.runtime-spec.features": `{"mountOptions":["ro","rro"]}`}},
			"runsc": {Runtime: system.Runtime{Path: "/usr/bin/runsc"}},
			"bad":   {Status: map[string]string{"org.opencontainers.runtime-spec.features": `{`}},
		},
	}, "")
	if f.Major != 28 || !f.isolatedGateway() || f.Arch != "arm64" || !f.AppArmor || !f.SELinux || !f.UserNamespaces {
		t.Errorf("%+v", f)
	}
	if !slices.Equal(f.RecursiveReadOnly, []string{"runc"}) || !slices.Equal(f.Runtimes, []string{"bad", "runc", "runsc"}) {
		t.Errorf("%+v", f)
	}
	old := factsOf(system.Info{ServerVersion: "20.10.24+dfsg1"}, "")
	if old.Major != 20 || old.isolatedGateway() || old.UserNamespaces {
		t.Errorf("%+v", old)
	}
}

// R62: a registration that changes, in whatever part, changes the key.
func TestR62RuntimeKey(t *testing.T) {
	key := func(args ...string) string {
		return factsOf(system.Info{Runtimes: map[string]system.RuntimeWithStatus{
			"runsc": {Runtime: system.Runtime{Path: "/runsc", Args: args}}}}, "").RuntimeKey
	}
	if again := key("a"); key() == key("--overlay2=none") || key("a") != again {
		t.Error("the key does not follow the registration")
	}
}

// R31, K37: which backends can cap a container's disk.
func TestR31DiskQuota(t *testing.T) {
	const mounts = `1 0 8:1 / / rw - ext4 /dev/a rw
2 1 8:2 / /var/lib rw - xfs /dev/b rw,prjquota
3 1 8:3 / /var/lib/dockerother rw - xfs /dev/c rw
`
	for _, tc := range []struct {
		driver, backing, root string
		want                  bool
	}{
		{"btrfs", "", "/", true},
		{"zfs", "", "/", true},
		{"overlay2", "xfs", "/var/lib/docker", true},
		{"overlay2", "xfs", "/srv/docker", false},
		{"overlay2", "xfs", "/var/lib/dockerother", false},
		{"overlay2", "extfs", "/var/lib/docker", false},
		{"vfs", "xfs", "/var/lib/docker", false},
	} {
		got := diskQuota(system.Info{Driver: tc.driver, DockerRootDir: tc.root, DriverStatus: [][2]string{{"Backing Filesystem", tc.backing}}}, mounts)
		if got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
