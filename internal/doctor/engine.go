package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (x *examination) engine() {
	e := x.facts.Engine
	x.add(Info, "engine", "engine", fmt.Sprintf("Docker %s at %s (containerd %s, runc %s), kernel %s, storage %s in %s, cgroup v%s by %s",
		e.Version, x.facts.Endpoint, known(e.Containerd), known(e.Runc), e.Kernel, e.StorageDriver, e.Root, known(e.CgroupVersion), e.CgroupDriver), "")
	x.isolation()
	if resolverForwards(e.Version) {
		x.add(Warning, "cve-2024-29018", "engine",
			fmt.Sprintf("Docker %s lets its own resolver ask others on behalf of internal networks (CVE-2024-29018); sandboxes have a resolver of their own, and a class is offered only while its probe finds that no other answers", e.Version),
			"update to 23.0.11, 25.0.5, 26.0 or later; a distribution may have mended its build without a new version number")
	}
	x.runc()
	if older(e.Version, 20, 10) {
		x.add(Warning, "engine-old", "engine", fmt.Sprintf("Docker %s is older than what this driver is tested with", e.Version), "update to 20.10.24 or later")
	}
	if e.StorageDriver != "overlay2" {
		x.add(Warning, "image-links", "engine", fmt.Sprintf("the engine keeps images by %s, where links of an image cannot be looked at: an image and a job that work together can put their own program in place of the sandbox's first", known(e.StorageDriver)),
			`set "storage-driver": "overlay2" in the engine's daemon.json, with "features": {"containerd-snapshotter": false} from Docker 29 on; images have to be fetched again`)
	}
	if e.UserNamespaces {
		x.add(Error, "userns", "engine", "the engine maps users to others (userns-remap or rootless), which this driver does not support", "remove userns-remap from the engine's daemon.json, or use an engine that runs as root")
	}
	switch {
	case e.CgroupDriver == "none":
		x.add(Error, "cgroup-none", "engine", "the engine has no cgroup driver, so no limit of a task would hold", "run the engine as root on a host with cgroups")
	case e.CgroupVersion == "2" && e.CgroupDriver == "cgroupfs" && x.facts.Host.Systemd:
		x.add(Warning, "cgroup-driver", "engine", "the engine manages cgroups itself beside systemd, which believes that they are its own and may move processes between them",
			`set "exec-opts": ["native.cgroupdriver=systemd"] in the engine's daemon.json and restart it while no task runs`)
	}
}

// runc names the ways out of a container that older releases of it are known for.
func (x *examination) runc() {
	const remedy = "update runc; a distribution may have mended its build without a new version number"
	v := x.facts.Engine.Runc
	switch major, minor, patch, ok := parts(v); {
	case !ok:
	case major < 1 || major == 1 && (minor < 1 || minor == 1 && patch < 12):
		x.add(Warning, "cve-2024-21626", "engine",
			fmt.Sprintf("runc %s may leave a folder of the host open while a container starts (CVE-2024-21626); nothing of a task starts from a directory outside its sandbox", v), remedy)
	case major == 1 && (minor < 2 || minor == 2 && patch < 8 || minor == 3 && patch < 3):
		x.add(Warning, "cve-2025-31133", "engine",
			fmt.Sprintf("runc %s can be led to the host's files while it masks paths of a container (CVE-2025-31133, 52565 and 52881), if a hostile image starts beside another that shares a mount with it", v), remedy)
	}
}

// isolation says what holds a sandbox on this engine.
func (x *examination) isolation() {
	e := x.facts.Engine
	recipe := []string{"one internal network a run, IPv6 off"}
	if e.IsolatedGateway {
		recipe = append(recipe, "isolated gateway")
	} else {
		recipe = append(recipe, "bridge without an address (inhibit_ipv4)")
	}
	recipe = append(recipe, "all capabilities dropped", "no-new-privileges")
	for name, have := range map[string]bool{"seccomp": e.Seccomp, "AppArmor": e.AppArmor, "SELinux": e.SELinux} {
		if have {
			recipe = append(recipe, name)
		}
	}
	slices.Sort(recipe[4:])
	if e.DiskQuota {
		recipe = append(recipe, "disk quota")
	}
	x.add(Info, "isolation", "isolation", strings.Join(recipe, ", "), "")
	if !e.Seccomp {
		x.add(Error, "seccomp", "isolation", "the engine filters no system calls", "use an engine and a kernel with seccomp, and no seccomp-profile unconfined in daemon.json")
	}
	if !e.AppArmor && !e.SELinux {
		x.add(Info, "no-lsm", "isolation", "the engine uses neither AppArmor nor SELinux; at CC1 one wall fewer stands between a task and the kernel", "install apparmor and restart the engine, or run tasks at CC2")
	}
}

// resolverForwards: moby's fix of CVE-2024-29018 is in 23.0.11, 25.0.5 and 26.0.
func resolverForwards(version string) bool {
	major, minor, patch, ok := parts(version)
	switch {
	case !ok, major >= 26:
		return false
	case major == 25:
		return minor == 0 && patch < 5
	case major == 23:
		return minor == 0 && patch < 11
	}
	return true
}

func older(version string, major, minor int) bool {
	a, b, _, ok := parts(version)
	return ok && (a < major || a == major && b < minor)
}

// parts are the numbers of a version; what distributions append is left out.
func parts(version string) (major, minor, patch int, ok bool) {
	f := strings.SplitN(version, ".", 3)
	if len(f) < 2 {
		return 0, 0, 0, false
	}
	var err1, err2 error
	major, err1 = strconv.Atoi(f[0])
	minor, err2 = strconv.Atoi(f[1])
	if len(f) == 3 {
		end := strings.IndexFunc(f[2], func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(f[2])
		}
		patch, _ = strconv.Atoi(f[2][:end])
	}
	return major, minor, patch, err1 == nil && err2 == nil
}

func known(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
