package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Families of runtimes, as normalRuntime spells them.
const (
	familyGVisor = "runsc"
	familyKata   = "kata"
	familyKrun   = "krun"
)

// sidecarRuntime is the runtime of every sidecar, whatever the engine's default.
const sidecarRuntime = "runc"

// resolveRuntime picks the registered runtime that gives class, or the
// operator's pin for it. It never answers with a weaker one: the error wraps
// runner.ErrClassUnavailable.
func resolveRuntime(class types.ConfinementClass, f hostFacts, pin string) (string, error) {
	if pin != "" && !slices.Contains(f.Runtimes, pin) {
		return "", fmt.Errorf("%w: %s is pinned to runtime %q, which the engine does not have (it has %s)",
			runner.ErrClassUnavailable, class, pin, strings.Join(f.Runtimes, ", "))
	}
	switch class {
	case types.CC1:
		return resolveCC1(f, pin)
	case types.CC2:
		if pin != "" && !inFamily(pin, familyGVisor) {
			return "", fmt.Errorf("%w: CC2 is pinned to runtime %q; only a gVisor runtime (runsc...) gives CC2", runner.ErrClassUnavailable, pin)
		}
		if name := firstOf(pin, pick(f.Runtimes, familyGVisor)); name != "" {
			return name, nil
		}
		return "", fmt.Errorf("%w: CC2 needs gVisor, and the engine has only %s; register its runtime with the engine under the name runsc",
			runner.ErrClassUnavailable, strings.Join(f.Runtimes, ", "))
	case types.CC3:
		if pin != "" && runner.IsKnownNonVaultRuntime(pin) {
			return "", fmt.Errorf("%w: CC3 is pinned to runtime %q, which is no virtual machine", runner.ErrClassUnavailable, pin)
		}
		if name := firstOf(pin, pick(f.Runtimes, familyKata), pick(f.Runtimes, familyKrun)); name != "" {
			return name, nil
		}
		return "", fmt.Errorf("%w: CC3 needs a microVM runtime, and the engine has only %s; register one with the engine under a name that starts with kata, or krun",
			runner.ErrClassUnavailable, strings.Join(f.Runtimes, ", "))
	}
	return "", fmt.Errorf("%w: confinement %q; want CC1, CC2 or CC3", runner.ErrClassUnavailable, class)
}

// resolveCC1 prefers runc by name, since an engine's default may be anything.
func resolveCC1(f hostFacts, pin string) (string, error) {
	switch {
	case pin != "":
		return pin, nil
	case slices.Contains(f.Runtimes, sidecarRuntime):
		return sidecarRuntime, nil
	case f.DefaultRuntime != "":
		return f.DefaultRuntime, nil
	}
	return "", fmt.Errorf("%w: the engine has neither runc nor a default runtime", runner.ErrClassUnavailable)
}

// normalRuntime strips what containerd puts before a runtime's own name.
func normalRuntime(name string) string {
	return strings.TrimPrefix(strings.ToLower(name), "io.containerd.")
}

func inFamily(name, family string) bool { return strings.HasPrefix(normalRuntime(name), family) }

// pick is the runtime called like the family, else the first of it in order.
func pick(names []string, family string) string {
	if slices.Contains(names, family) {
		return family
	}
	for _, n := range names {
		if inFamily(n, family) {
			return n
		}
	}
	return ""
}

func firstOf(names ...string) string {
	for _, n := range names {
		if n != "" {
			return n
		}
	}
	return ""
}
