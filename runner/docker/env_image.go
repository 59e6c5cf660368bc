package docker

import (
	"slices"
	"strings"
)

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
