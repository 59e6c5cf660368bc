// Package redact blots secrets out of a stream. An origin that echoes what it
// was sent must not hand a sandbox the credential that was added outside it.
//
// The end of a stream waits for what follows it whatever it is, so that nobody
// sees by what waits how a secret begins, and goes on at a line break or when
// the stream pauses. Behind a pause only more than half of a secret waits on.
// What is found is every form of forms.go; what is not is a secret that the
// origin has changed in any other way, such as its case, or encrypted.
package redact

import (
	"bytes"
	"strings"
)

// mask stands for a secret wherever the length of what it stands in may change,
// so that it does not tell the secret's.
const mask = "********"

// Patterns are the forms of one secret, in tables for a search that steps over
// most bytes unseen (after Wu and Manber). They do not change after Of.
type Patterns struct {
	forms []form
	names []string // readable forms in lower case, for names of header fields
	min   int      // length of the shortest form
	max   int
	// window is how many bytes wait for what follows them, none where there is
	// nothing to look for. It is rounded up so as not to tell a length.
	window int
	// skip is how far the search may step on, by the last two bytes of a window
	// of min bytes; where it may not, ends has the forms to compare.
	skip [1 << 12]uint8
	ends map[uint16][]int
	lead [256]bool // first bytes of forms
}

const windowStep = 1 << 10

// Of returns the forms in which a header value may come back. A value under
// eight bytes has none: it would blot out ordinary text.
func Of(value string) *Patterns {
	p := &Patterns{forms: formsOf(value), ends: map[uint16][]int{}}
	for i, f := range p.forms {
		if i == 0 || len(f.text) < p.min {
			p.min = len(f.text)
		}
		p.max = max(p.max, len(f.text))
		p.lead[f.text[0]] = true
		if !f.encoded {
			p.names = append(p.names, strings.ToLower(string(f.text)))
		}
	}
	p.min = min(p.min, 255)
	p.window = (p.max + windowStep - 1) / windowStep * windowStep
	for i := range p.skip {
		p.skip[i] = uint8(max(p.min-1, 0))
	}
	for i, f := range p.forms {
		for k := 1; k < p.min; k++ {
			h := pair(f.text[k-1], f.text[k])
			p.skip[h] = min(p.skip[h], uint8(p.min-1-k))
		}
		h := pair(f.text[p.min-2], f.text[p.min-1])
		p.ends[h] = append(p.ends[h], i)
	}
	return p
}

func pair(a, b byte) uint16 { return uint16(a)<<4&0xfff ^ uint16(b) }

// Empty reports whether there is nothing to look for.
func (p *Patterns) Empty() bool { return len(p.forms) == 0 }

// span is a piece of text that is a secret, from its first byte to the one
// behind its last.
type span struct{ from, to int }

// find appends the secrets in b to spans: in order, and those that overlap as one.
func (p *Patterns) find(b []byte, spans []span) []span {
	if p.Empty() {
		return spans
	}
	for at := 0; at+p.min <= len(b); {
		h := pair(b[at+p.min-2], b[at+p.min-1])
		if n := int(p.skip[h]); n > 0 {
			at += n
			continue
		}
		if n := p.longest(b[at:], p.ends[h]); n > 0 {
			spans = join(spans, span{at, at + n})
		}
		at++
	}
	return spans
}

// longest is the length of the longest of some forms that b begins with.
func (p *Patterns) longest(b []byte, forms []int) int {
	n := 0
	for _, i := range forms {
		if t := p.forms[i].text; len(t) > n && bytes.HasPrefix(b, t) {
			n = len(t)
		}
	}
	return n
}

func join(spans []span, s span) []span {
	if n := len(spans); n > 0 && s.from < spans[n-1].to {
		spans[n-1].to = max(spans[n-1].to, s.to)
		return spans
	}
	return append(spans, s)
}

// waiting returns how many bytes at the end of b wait for what follows them:
// those behind the last line break, which no form has inside.
func (p *Patterns) waiting(b []byte) int {
	return min(len(b)-1-bytes.LastIndexByte(b, '\n'), p.window)
}

// begun returns how many bytes at the end of b are so much of a secret that
// they must not go on even when nothing follows.
func (p *Patterns) begun(b []byte) int {
	for at := max(0, len(b)-p.max+1); at < len(b); at++ {
		if !p.lead[b[at]] {
			continue
		}
		for _, f := range p.forms {
			if rest := len(b) - at; f.held < rest && rest < len(f.text) && bytes.Equal(b[at:], f.text[:rest]) {
				return rest // the first is the longest
			}
		}
	}
	return 0
}

// String returns s with a mask in the place of every secret.
func (p *Patterns) String(s string) string {
	spans := p.find([]byte(s), nil)
	if len(spans) == 0 {
		return s
	}
	var out strings.Builder
	at := 0
	for _, x := range spans {
		out.WriteString(s[at:x.from])
		out.WriteString(mask)
		at = x.to
	}
	out.WriteString(s[at:])
	return out.String()
}

// InName reports whether the name of a header field holds a secret. Names have
// no case: HTTP/2 writes them small, and libraries as they like.
func (p *Patterns) InName(name string) bool {
	if len(name) < p.min || p.Empty() {
		return false
	}
	if len(p.find([]byte(name), nil)) > 0 {
		return true
	}
	low := strings.ToLower(name)
	for _, n := range p.names {
		if strings.Contains(low, n) {
			return true
		}
	}
	return false
}
