package docker

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// neverCaps would open a way out of the sandbox or onto its network, whatever
// an operator's list says.
var neverCaps = []string{
	"ALL", "BPF", "DAC_READ_SEARCH", "MAC_ADMIN", "NET_ADMIN", "NET_RAW",
	"SYS_ADMIN", "SYS_BOOT", "SYS_MODULE", "SYS_RAWIO",
}

// checkSpec collects every fault of a spec that can be told without the image,
// so that an author sees them all at once. denied are folders of this host
// that no mount may touch. spec has its resources' defaults filled in.
func checkSpec(spec runner.SandboxSpec, host hostFacts, runtime string, limit runner.Resources, denied []string) error {
	var errs []error
	if spec.RunID == uuid.Nil {
		errs = append(errs, errors.New("run id: missing"))
	}
	if spec.Image == "" {
		errs = append(errs, errors.New("image: missing"))
	}
	errs = append(errs, checkMax(spec.Resources, limit)...)
	errs = append(errs, checkLabels("task", spec.Labels)...)
	errs = append(errs, checkEnv(spec.Env)...)
	errs = append(errs, checkMounts(spec, host, runtime, denied)...)
	var t runner.TaskProcess
	if spec.Task != nil {
		t = *spec.Task
	}
	errs = append(errs, checkLeast(spec.Resources, t)...)
	errs = append(errs, checkTask(t)...)
	errs = append(errs, checkProfile(t, host)...)
	return invalid(errs)
}

// checkTask judges the process's own fields.
func checkTask(t runner.TaskProcess) (errs []error) {
	errs = append(errs, checkStages(t)...)
	if t.WorkDir != "" && !path.IsAbs(t.WorkDir) {
		errs = append(errs, fmt.Errorf("work_dir %q: want an absolute path", t.WorkDir))
	}
	if runner.InProc(t.WorkDir) {
		errs = append(errs, fmt.Errorf("work_dir %q: below /proc a runtime may have files of the host open: %w", t.WorkDir, runner.ErrDenied))
	}
	if len(t.Hostname) > 63 || strings.ContainsAny(t.Hostname, " \t\n/\x00") {
		errs = append(errs, fmt.Errorf("hostname %q: want at most 63 characters without blanks or slashes", t.Hostname))
	}
	for _, c := range t.CapAdd {
		if name := strings.TrimPrefix(strings.ToUpper(c), "CAP_"); slices.Contains(neverCaps, name) {
			errs = append(errs, fmt.Errorf("cap_add %s: never given to a sandbox: %w", c, runner.ErrDenied))
		}
	}
	errs = append(errs, checkPowers(t)...)
	for _, k := range slices.Sorted(maps.Keys(t.Sysctls)) {
		if !strings.HasPrefix(k, "net.ipv4.") {
			errs = append(errs, fmt.Errorf("sysctl %s: only net.ipv4.* can be set in a sandbox: %w", k, runner.ErrDenied))
		}
	}
	return errs
}

// maxImageVolumes bounds what an image has the engine make for each container:
// every one is a folder of the node's and a mount.
const maxImageVolumes = 64

// checkImage judges an image against the task and the host.
func checkImage(spec runner.SandboxSpec, img imageFacts, host hostFacts) error {
	errs := checkLabels("image "+spec.Image, img.Labels)
	if img.OS != "" && img.OS != "linux" || !runsOn(img.Arch, host.Arch) {
		errs = append(errs, fmt.Errorf("image %s is for %s/%s and this host is linux/%s; use an image, or a digest of it, made for this host",
			spec.Image, firstOf(img.OS, "linux"), img.Arch, host.Arch))
	}
	if runner.InProc(img.WorkDir) && (spec.Task == nil || spec.Task.WorkDir == "") {
		errs = append(errs, fmt.Errorf("image %s starts in %q, and below /proc a runtime may have files of the host open; set work_dir: %w",
			spec.Image, img.WorkDir, runner.ErrDenied))
	}
	if n := len(img.Volumes); n > maxImageVolumes {
		// The rest would take as long as the image has volumes.
		return invalid(append(errs, fmt.Errorf("image %s declares %d volumes, and a sandbox has at most %d of them; use an image that declares fewer: %w",
			spec.Image, n, maxImageVolumes, runner.ErrDenied)))
	}
	for _, v := range img.Volumes {
		if err := checkTarget(path.Clean(v)); err != nil {
			errs = append(errs, fmt.Errorf("image %s declares a volume there: %w", spec.Image, err))
		}
	}
	errs = append(errs, checkEnvSize(spec, img)...)
	argv, err := mainArgv(spec.RunID, spec.Task, img)
	if err == nil && slices.ContainsFunc(argv, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		err = fmt.Errorf("image %s: its command has a NUL byte, which no program can be given; set command", spec.Image)
	}
	if err != nil {
		errs = append(errs, err)
	}
	return invalid(errs)
}

// runsOn: an image without an architecture is taken at its word.
func runsOn(image, host string) bool {
	return image == "" || host == "" || image == host ||
		image == "386" && host == "amd64" || image == "arm" && host == "arm64"
}

// invalid joins faults into one error of the contract.
func invalid(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", runner.ErrInvalid, errors.Join(errs...))
}
