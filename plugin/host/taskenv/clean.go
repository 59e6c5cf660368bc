package taskenv

import (
	"maps"
	"slices"
	"strings"
)

// Clean makes a name fit for an environment variable, as a client does: each byte that is no
// ASCII letter, digit, _ or dot is replaced by _, and a digit at the beginning is.
func Clean(name string) string {
	out := []byte(name)
	for i, c := range out {
		switch {
		case c == '_', c == '.', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', i > 0 && '0' <= c && c <= '9':
		default:
			out[i] = '_'
		}
	}
	return string(out)
}

// cleanedPrefixes begin the names that a client cleans, whoever has set them. It leaves the
// labels in NOMAD_HOST_IP_, NOMAD_HOST_ADDR_ and NOMAD_ALLOC_PORT_ as they are.
var cleanedPrefixes = []string{"NOMAD_ADDR_", "NOMAD_IP_", "NOMAD_PORT_", "NOMAD_HOST_PORT_", "NOMAD_META_"}

// cleaned is an environment with clean names of ports and meta. Of two that become one, that
// which was clean before counts, else the first by the alphabet.
func cleaned(env map[string]string) map[string]string {
	out := maps.Clone(env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		clean := name
		if slices.ContainsFunc(cleanedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			clean = Clean(name)
		}
		if clean == name {
			continue
		}
		delete(out, name)
		if _, taken := out[clean]; !taken {
			out[clean] = env[name]
		}
	}
	return out
}
