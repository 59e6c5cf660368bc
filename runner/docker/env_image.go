package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// maxEnv is what Linux passes to a program at most, environment and arguments
// together: a quarter of the usual stack, less what the driver itself adds.
const maxEnv = 2<<20 - 128<<10

// imageDenied are variables that an image may not set for a task: they would
// put its code into every program of the task, or pass for credentials that
// the driver gives out. A job that wants one sets it itself.
var imageDenied = []string{"LD_PRELOAD", "LD_AUDIT", "NOMAD_TOKEN", "VAULT_TOKEN"}

// withoutImageEnv adds to an environment what makes the engine leave an
// image's variables out where they are denied: the bare name of each. Names in
// the reserved namespaces are the driver's.
func withoutImageEnv(env, image []string) []string {
	set := func(name string) bool {
		return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	}
	var drop []string
	for _, kv := range image {
		name, _, _ := strings.Cut(kv, "=")
		if (isReservedEnv(name) || slices.Contains(imageDenied, name)) && !set(name) && !slices.Contains(drop, name) {
			drop = append(drop, name)
		}
	}
	if drop == nil {
		return env
	}
	return slices.Sorted(slices.Values(slices.Concat(env, drop)))
}

// checkEnvSize refuses an image whose variables, alone or with the task's, no
// program can be started with. A variable that the task sets replaces the image's.
func checkEnvSize(spec runner.SandboxSpec, img imageFacts) (errs []error) {
	total := 0
	for k, v := range spec.Env {
		total += len(k) + len(v) + 2
	}
	for _, kv := range img.Env {
		name, _, _ := strings.Cut(kv, "=")
		if name == "" || strings.ContainsRune(kv, 0) {
			errs = append(errs, fmt.Errorf("image %s sets %q, which is no variable that a program can be given; use an image without it", spec.Image, kv[:min(len(kv), 40)]))
			continue
		}
		if _, replaced := spec.Env[name]; replaced {
			continue
		}
		if len(kv)+1 > maxEnvString {
			errs = append(errs, fmt.Errorf("image %s sets %s to %d bytes; no program starts with a variable over %d bytes, set it to something shorter in env",
				spec.Image, name, len(kv)-len(name)-1, maxEnvString))
		}
		total += len(kv) + 1
	}
	if total > maxEnv {
		errs = append(errs, fmt.Errorf("env: the variables of the task and of image %s have %d bytes together; no program starts with more than %d, deliver them as files", spec.Image, total, maxEnv))
	}
	return errs
}
