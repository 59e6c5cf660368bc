package clean

import (
	"bytes"
	"strings"
)

// Stream hides secrets in bytes that come in pieces, also where a piece ends
// inside of one. Secrets are found as they are; encoded or split ones are not.
type Stream struct {
	values [][]byte
	begins [256]bool // what a value can begin with
	held   []byte    // the beginning of a value, whose rest has not come
}

// NewStream hides these values. Those of several lines are also found with a
// terminal's line ends.
func NewStream(secrets []string) *Stream {
	s := &Stream{}
	s.Hide(secrets...)
	return s
}

// Hide hides more values from now on.
func (s *Stream) Hide(secrets ...string) {
	for _, v := range secrets {
		if len(v) < Shortest {
			continue
		}
		s.values = append(s.values, []byte(v))
		if strings.Contains(v, "\n") && !strings.Contains(v, "\r") {
			s.values = append(s.values, []byte(strings.ReplaceAll(v, "\n", "\r\n")))
		}
	}
	s.values = Order(s.values)
	for _, v := range s.values {
		s.begins[v[0]] = true
	}
}

// Next is what can be shown after b has come: all but the beginning of a
// secret at the end of b, which is held back until it is known to be one or not.
func (s *Stream) Next(b []byte) []byte { return s.pass(b, false) }

// End is what was held back. The greater part of a secret is hidden like a
// whole one.
func (s *Stream) End() []byte { return s.pass(nil, true) }

func (s *Stream) pass(b []byte, last bool) []byte {
	in := append(s.held, b...)
	s.held = nil
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		if !s.begins[in[i]] {
			out = append(out, in[i])
			i++
			continue
		}
		n, open := s.match(in[i:])
		switch {
		case open && !last:
			s.held = bytes.Clone(in[i:])
			return out
		case open && len(in)-i >= Shortest:
			return append(out, Hidden...)
		case n > 0:
			out = append(out, Hidden...)
			i += n
		default:
			out = append(out, in[i])
			i++
		}
	}
	return out
}

// match is the length of the secret that b begins with, 0 for none, and
// whether b is the beginning of a longer one.
func (s *Stream) match(b []byte) (n int, open bool) {
	for _, v := range s.values {
		switch {
		case bytes.HasPrefix(b, v):
			return len(v), open
		case len(b) < len(v) && bytes.HasPrefix(v, b):
			open = true
		}
	}
	return 0, open
}
