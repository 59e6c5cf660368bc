package docker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Size of the engine's log of an agent when the task says nothing.
const (
	logSizeMiB = 20
	logFiles   = 5
)

// applyPowers sets what a task has by the operator's leave, and its log.
func applyPowers(h *container.HostConfig, t runner.TaskProcess, seccomp string) {
	h.OomScoreAdj = int(max(t.OOMScoreAdj, runner.AgentOOMScore))
	h.LogConfig = rotated(fmt.Sprintf("%dm", cmp.Or(t.Log.SizeMiB, logSizeMiB)), int(cmp.Or(t.Log.Files, logFiles)))
	for _, d := range t.Devices {
		h.Devices = append(h.Devices, container.DeviceMapping{PathOnHost: d.Host, PathInContainer: d.Target, CgroupPermissions: d.Permissions})
	}
	h.GroupAdd = append(h.GroupAdd, t.GroupAdd...)
	if t.AppArmor != "" {
		h.SecurityOpt = replaceOpt(h.SecurityOpt, "apparmor", t.AppArmor)
	}
	if seccomp != "" {
		h.SecurityOpt = replaceOpt(h.SecurityOpt, "seccomp", seccomp)
	}
}

// replaceOpt puts a security option in the place of the one of that name.
func replaceOpt(opts []string, name, value string) []string {
	opts = slices.DeleteFunc(slices.Clone(opts), func(o string) bool { return strings.HasPrefix(o, name+"=") })
	return append(opts, name+"="+value)
}

// checkPowers refuses what no operator's leave can give.
func checkPowers(t runner.TaskProcess) (errs []error) {
	for _, d := range t.Devices {
		if !strings.HasPrefix(d.Host, "/dev/") || path.Clean(d.Host) != d.Host || !strings.HasPrefix(d.Target, "/dev/") || strings.Trim(d.Permissions, "rw") != "" {
			errs = append(errs, fmt.Errorf("device %s: want paths below /dev and letters of rw: %w", d.Host, runner.ErrDenied))
		}
	}
	for _, g := range t.GroupAdd {
		if n, err := strconv.ParseInt(g, 10, 32); err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("group_add %q: want the number of a group, and never root's: %w", g, runner.ErrDenied))
		}
	}
	if t.AppArmor == "unconfined" {
		errs = append(errs, fmt.Errorf("apparmor_profile unconfined: no sandbox is: %w", runner.ErrDenied))
	}
	return errs
}

// checkProfile refuses a profile that an engine without AppArmor leaves out
// without a word.
func checkProfile(t runner.TaskProcess, host hostFacts) []error {
	if t.AppArmor == "" || host.AppArmor {
		return nil
	}
	return []error{fmt.Errorf("apparmor_profile %q: the engine of this node has no AppArmor and would leave the profile out; remove the line, or place the task on a node that has it: %w", t.AppArmor, runner.ErrUnsupported)}
}

// readSeccomp reads a task's own filter of system calls; "" where it has none.
func readSeccomp(t *runner.TaskProcess) (string, error) {
	if t == nil || t.SeccompFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(t.SeccompFile)
	if err != nil {
		return "", fmt.Errorf("the operator's seccomp profile: %w", err)
	}
	var profile struct {
		DefaultAction string `json:"defaultAction"`
	}
	if err := json.Unmarshal(text, &profile); err != nil || profile.DefaultAction == "" {
		return "", fmt.Errorf("the operator's seccomp profile %s is none: %w", t.SeccompFile, runner.ErrInvalid)
	}
	return string(text), nil
}
