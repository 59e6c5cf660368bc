package cast

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
)

// Text makes events' text out of one stream's bytes, wherever reads have cut
// them: secrets hidden, and what is no UTF-8 replaced.
type Text struct {
	secrets *clean.Stream
	pipe    bool   // lines end in \n alone
	cut     []byte // the beginning of a character
	cr      bool   // the last byte was \r
}

// NewText makes a Text that hides secrets; of a pipe, lines get the ends that a
// terminal gives them.
func NewText(secrets []string, pipe bool) *Text {
	return &Text{secrets: clean.NewStream(secrets), pipe: pipe}
}

// Next is the text of what came next, as far as it is known to be whole.
func (t *Text) Next(b []byte) string { return t.convert(t.secrets.Next(b), false) }

// End is what was held back.
func (t *Text) End() string { return t.convert(t.secrets.End(), true) }

func (t *Text) convert(b []byte, last bool) string {
	b = append(t.cut, b...)
	t.cut = nil
	if n := incomplete(b); n > 0 && !last {
		t.cut = bytes.Clone(b[len(b)-n:])
		b = b[:len(b)-n]
	}
	s := strings.ToValidUTF8(string(b), string(utf8.RuneError))
	if !t.pipe {
		return s
	}
	return t.lineEnds(s)
}

// incomplete is the length of a character at the end of b whose rest has not come.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// lineEnds does what a terminal does to a program's line ends.
func (t *Text) lineEnds(s string) string {
	if !strings.Contains(s, "\n") {
		t.cr = strings.HasSuffix(s, "\r") || s == "" && t.cr
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + 16)
	for i := range len(s) {
		if s[i] == '\n' && !t.cr {
			out.WriteByte('\r')
		}
		t.cr = s[i] == '\r'
		out.WriteByte(s[i])
	}
	return out.String()
}
