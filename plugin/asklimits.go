package plugin

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

var ulimits = []string{
	"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc",
	"rss", "rtprio", "rttime", "sigpending", "stack",
}

func (a *ask) readLimits(c TaskConfig, h HostConfig, f *faults) {
	switch n := c.PidsLimit; {
	case n < 0:
		f.add("pids_limit", n, "a sandbox always has a limit", "remove the line for the default")
	case n > 0 && n < runner.MinPidsLimit:
		f.add("pids_limit", n, "the sandbox's own init and whoever opens a shell in it need some of them", fmt.Sprintf("write %d or more, or remove the line for the default", runner.MinPidsLimit))
	case h.MaxPids > 0 && n > h.MaxPids:
		f.add("pids_limit", n, fmt.Sprintf("the operator's maximum is %d (plugin option max_pids)", h.MaxPids), "ask for less")
	default:
		a.PidsLimit = n
	}
	if c.ShmSize != "" && c.ShmSize != "0" {
		n, err := sizeMiB(c.ShmSize)
		if err != nil {
			f.add("shm_size", c.ShmSize, err.Error(), `write bytes, or a number with a unit such as "256m"`)
		}
		a.ShmMiB = n
	}
	a.readCaps(c, h, f)
	a.readUlimits(c, h, f)
	a.readMore(c, h, f)
	a.readSysctls(c.Sysctl, f)
}

func (a *ask) readUlimits(c TaskConfig, h HostConfig, f *faults) {
	set, err := stringMap(c.Ulimit)
	if err != nil {
		f.add("ulimit", nil, err.Error(), "")
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains(ulimits, name) {
			f.add("ulimit", name, "no such limit", "the names are "+strings.Join(ulimits, ", "))
			continue
		}
		soft, hard, both := strings.Cut(set[name], ":")
		if !both {
			hard = soft
		}
		s, err1 := strconv.ParseInt(soft, 10, 64)
		d, err2 := strconv.ParseInt(hard, 10, 64)
		if err1 != nil || err2 != nil || s < -1 || d < -1 || d != -1 && (s == -1 || s > d) {
			f.add("ulimit."+name, set[name], `want "soft:hard" or one number for both, soft not above hard`, "-1 is unlimited")
			continue
		}
		// A real-time process goes before everything of the host's, and on most
		// kernels no cap on CPU time holds it.
		if name == "rtprio" && d != 0 && !slices.Contains(h.AllowCaps, "SYS_NICE") {
			f.add("ulimit.rtprio", set[name], "real-time priorities come with the capability SYS_NICE, which the operator does not allow (plugin option allow_caps)", "remove it")
			continue
		}
		a.Ulimits = append(a.Ulimits, runner.Ulimit{Name: name, Soft: s, Hard: d})
	}
}

// sizeMiB reads bytes, or a number with k, m or g, as whole MiB, rounded up.
func sizeMiB(text string) (int64, error) {
	s := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text)), "b")
	s = strings.TrimSuffix(s, "i")
	shift := 0
	for unit, n := range map[string]int{"k": 10, "m": 20, "g": 30} {
		if t, ok := strings.CutSuffix(s, unit); ok {
			s, shift = t, n
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > 1<<62>>shift {
		return 0, fmt.Errorf("that is no size")
	}
	const miB = 1 << 20
	return (n<<shift + miB - 1) / miB, nil
}

// maxMounts bounds the mounts of one job's task. Each bind is a mount of the
// host's as well, and the kernel gives those out to all by a limit.
const maxMounts = 128

// readFiles reads volumes and mount_secrets.
func (a *ask) readFiles(c TaskConfig, h HostConfig, f *faults) {
	seen := map[string]bool{}
	for _, text := range c.Volumes {
		b, err := parseVolume(text, h.Volumes)
		if err != nil {
			f.addEach("volumes", text, err)
			continue
		}
		b.Option, b.As = "volumes", text
		if seen[b.Target] {
			f.add("volumes", text, "something else is mounted at "+b.Target+" already", "remove one of the two")
			continue
		}
		seen[b.Target] = true
		a.Binds = append(a.Binds, b)
	}
	a.readMounts(c, h, seen, f)
	if n := len(a.Binds) + len(a.Tmpfs) + len(a.Kept); n > maxMounts {
		f.add("volumes, mount, tmpfs", n, fmt.Sprintf("a sandbox has at most %d mounts of its job's", maxMounts), "mount a folder in place of what is in it")
	}
	if c.MountSecrets && !h.AllowSecretsDir {
		f.add("mount_secrets", true, "the operator does not allow it (plugin option allow_secrets_dir)", "pass what the task needs in env or by a template in local/")
	}
	if c.ExposeTokens && !h.ExposeTokens {
		f.add("expose_tokens", true, "the operator does not allow it (plugin option expose_tokens)", "remove the line")
	}
}

// parseVolume reads "source:target[:mode]". Its error joins all that is wrong with it.
func parseVolume(text string, r VolumeRules) (bind, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return bind{}, fmt.Errorf(`want "source:target" or "source:target:ro"`)
	}
	mode := "rw"
	if len(parts) == 3 {
		mode = parts[2]
	}
	b, err := bindOf(parts[0], parts[1], mode == "ro", r)
	err = errors.Join(checkTarget(parts[1]), err)
	if mode != "ro" && mode != "rw" {
		err = errors.Join(err, fmt.Errorf("mode %q: want ro or rw", mode))
	}
	return b, err
}

// reservedTargets are places in a sandbox that no job may cover, nor anything
// below or above them.
var reservedTargets = map[string]string{
	"/proc": "the kernel's", "/sys": "the kernel's", "/dev": "the kernel's",
	"/etc/resolv.conf": "what names the proxy as resolver", "/etc/hosts": "what names the proxy", "/etc/hostname": "the sandbox's name",
	"/.wardyn": "the driver's", "/tmp/wardyn": "the driver's",
	"/alloc": "Nomad's shared folder", "/local": "the task's own folder", "/secrets": "the task's secrets",
}

// checkTarget judges where in the sandbox something may be mounted.
func checkTarget(t string) error {
	switch {
	case !path.IsAbs(t):
		return fmt.Errorf("target %q: want an absolute path inside the sandbox", t)
	case path.Clean(t) == "/":
		return fmt.Errorf("target %q: the root cannot be covered", t)
	case path.Clean(t) == "/tmp":
		return fmt.Errorf("target %q: the sandbox has a folder in memory there; a folder below it can be used", t)
	case path.Clean(t) != strings.TrimSuffix(t, "/") || strings.ContainsRune(t, 0):
		return fmt.Errorf("target %q: want it without . and .. and doubled slashes", t)
	}
	clean := path.Clean(t)
	for _, p := range slices.Sorted(maps.Keys(reservedTargets)) {
		if overlaps(clean, p) {
			return fmt.Errorf("target %q: %s is %s and cannot be covered", t, p, reservedTargets[p])
		}
	}
	return nil
}
