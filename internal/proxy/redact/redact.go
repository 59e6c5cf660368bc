// Package redact blots secrets out of a stream. An origin that echoes what it
// was sent must not hand a sandbox the credential that was added outside it.
// A secret is replaced by as many asterisks, so that lengths stay right, and no
// byte is held back longer than it could be the beginning of a secret.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// shortest is the length below which a value is no secret to look for.
const shortest = 8

// Patterns are the forms of one secret, longest first.
type Patterns [][]byte

// Of returns the forms in which a header value may come back: as it is, its
// part behind the scheme, what a Basic value encodes, and each of them in
// base64, percent-encoded and as it stands in JSON.
func Of(value string) Patterns {
	var p Patterns
	for _, v := range plainForms(value) {
		if len(v) < shortest {
			continue
		}
		p = p.add(v)
		p = p.add(base64.StdEncoding.EncodeToString([]byte(v)))
		p = p.add(base64.RawURLEncoding.EncodeToString([]byte(v)))
		p = p.add(url.QueryEscape(v))
		p = p.add(url.PathEscape(v))
		if j, err := json.Marshal(v); err == nil {
			p = p.add(string(j[1 : len(j)-1]))
		}
	}
	slices.SortStableFunc(p, func(a, b []byte) int { return len(b) - len(a) })
	return p
}

func plainForms(value string) []string {
	out := []string{value}
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok {
		return out
	}
	out = append(out, rest)
	if strings.EqualFold(scheme, "Basic") {
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
			out = append(out, string(plain))
			if _, pass, ok := strings.Cut(string(plain), ":"); ok {
				out = append(out, pass)
			}
		}
	}
	return out
}

func (p Patterns) add(v string) Patterns {
	if len(v) < shortest || slices.ContainsFunc(p, func(b []byte) bool { return string(b) == v }) {
		return p
	}
	return append(p, []byte(v))
}

// String returns s with every secret blotted out.
func (p Patterns) String(s string) string {
	for _, v := range p {
		if strings.Contains(s, string(v)) {
			b := []byte(s)
			p.blot(b)
			return string(b)
		}
	}
	return s
}

// blot overwrites every secret in b.
func (p Patterns) blot(b []byte) {
	for _, v := range p {
		for at := 0; ; {
			i := bytes.Index(b[at:], v)
			if i < 0 {
				break
			}
			at += i
			for k := range v {
				b[at+k] = '*'
			}
			at += len(v)
		}
	}
}

// partial returns how many bytes at the end of b could be the beginning of a
// secret.
func (p Patterns) partial(b []byte) int {
	longest := 0
	for _, v := range p {
		for n := min(len(v)-1, len(b)); n > longest; n-- {
			if bytes.HasSuffix(b, v[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// Filter blots a stream that is fed to it piece by piece.
type Filter struct {
	p    Patterns
	held []byte
}

// NewFilter returns a filter for one stream.
func NewFilter(p Patterns) *Filter { return &Filter{p: p} }

// Feed takes the next piece and returns what can go on. With last set
// everything does. The result is good until the next call.
func (f *Filter) Feed(piece []byte, last bool) []byte {
	b := append(f.held, piece...)
	f.p.blot(b)
	keep := 0
	if !last {
		keep = f.p.partial(b)
	}
	out := b[:len(b)-keep]
	f.held = append([]byte(nil), b[len(b)-keep:]...)
	return out
}

// Held reports whether bytes are waiting for what follows them.
func (f *Filter) Held() bool { return len(f.held) > 0 }
