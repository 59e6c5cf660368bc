package runner

import "strings"

// nonVaultFamilies are name prefixes of runtimes that share the host's kernel
// or stand a user-space kernel in front of it. The last two are no containers
// at all, but no virtual machines either.
var nonVaultFamilies = []string{
	"runc", "crun", "sysbox", "runsc", "youki", "nvidia",
	"spin", "wasm",
}

// IsKnownNonVaultRuntime reports whether name is a runtime positively known to
// give less than a virtual machine's boundary, and hence unfit for CC3. Names
// in containerd's style ("io.containerd.runc.v2") and other spellings of case
// are recognised. The empty name, an engine's default, is not matched: ask
// about the default by its name. A name that is not known is not matched
// either; there the operator vouches.
func IsKnownNonVaultRuntime(name string) bool {
	name = strings.TrimPrefix(strings.ToLower(name), "io.containerd.")
	for _, family := range nonVaultFamilies {
		if strings.HasPrefix(name, family) {
			return true
		}
	}
	return false
}
