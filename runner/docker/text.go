package docker

import (
	"strings"
	"unicode"
)

// maxEngineText bounds, in bytes, what an engine's words may add to an error.
const maxEngineText = 2 << 10

// engineText makes what an engine or a runtime wrote fit for an error text:
// valid UTF-8, one line, no control characters, bounded. Errors travel in
// protobuf strings, which take nothing else, and end up on terminals.
func engineText(s string) string {
	cut := len(s) > maxEngineText
	if cut {
		s = s[:maxEngineText]
	}
	s = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if cut {
		s += " ..."
	}
	return s
}

// bounded is an engine's error whose text is fit for an error text.
type bounded struct{ err error }

func (b bounded) Error() string { return engineText(b.err.Error()) }
func (b bounded) Unwrap() error { return b.err }
