// Package nearest finds the name that somebody probably meant.
package nearest

import "github.com/agext/levenshtein"

// most is how many letters a name may differ by and still be meant.
const most = 2

// Name is the known name that differs least from name; ok is false when none
// is near. Of several it is the first.
func Name(name string, known []string) (best string, ok bool) {
	distance := most + 1
	for _, k := range known {
		if d := levenshtein.Distance(name, k, nil); d < distance && d < len(k) && k != name {
			best, distance = k, d
		}
	}
	return best, best != ""
}
