package jobfile

import "regexp"

// reference is what a client replaces in texts: a dotted name, or env["NAME"].
var reference = regexp.MustCompile(`\$\{(?:env\["([^"\]]+)"\]|([a-zA-Z0-9_.-]+))\}`)

// Interpolate replaces the references in a text as a Nomad client does: one
// that lookup does not know stays as it is. Names are those of the task's
// environment (NOMAD_ALLOC_ID) and of the node (node.unique.id, attr.cpu.arch).
func Interpolate(text string, lookup func(name string) (string, bool)) string {
	return reference.ReplaceAllStringFunc(text, func(whole string) string {
		m := reference.FindStringSubmatch(whole)
		if v, ok := lookup(m[1] + m[2]); ok {
			return v
		}
		return whole
	})
}
