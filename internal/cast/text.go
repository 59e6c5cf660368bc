package cast

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
)

// text makes events' text out of one stream's bytes, wherever reads have cut
// them: secrets hidden, and what is no UTF-8 replaced.
type text struct {
	secrets *clean.Stream
	pipe    bool   // lines end in \n alone
	cut     []byte // the beginning of a character
	cr      bool   // the last byte was \r
}

func newText(secrets []string, pipe bool) *text {
	return &text{secrets: clean.NewStream(secrets), pipe: pipe}
}

func (t *text) next(b []byte) string { return t.convert(t.secrets.Next(b), false) }
func (t *text) end() string          { return t.convert(t.secrets.End(), true) }

func (t *text) convert(b []byte, last bool) string {
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
func (t *text) lineEnds(s string) string {
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
