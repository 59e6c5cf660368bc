// Package h1 reads and writes HTTP/1 messages byte by byte and strictly: what
// two parsers could read differently is refused. It knows heads, framing and
// bodies, and nothing of policy, connections or names.
package h1

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Limits of one head.
const (
	MaxRequestHead  = 64 << 10
	MaxResponseHead = 256 << 10
	MaxFields       = 256
)

// Error is a message that is refused as it stands on the wire. Status is the
// answer it deserves.
type Error struct {
	Status int
	Reason string
}

func (e *Error) Error() string { return e.Reason }

func refuse(status int, format string, args ...any) error {
	return &Error{Status: status, Reason: fmt.Sprintf(format, args...)}
}

// StatusOf returns the status of an *Error in err's chain, or fallback.
func StatusOf(err error, fallback int) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return fallback
}

// Field is one header line. The name keeps the case it came in.
type Field struct{ Name, Value string }

// Fields is a header section in order.
type Fields []Field

// Get returns the first value of a field and whether there is one.
func (f Fields) Get(name string) (string, bool) {
	for i := range f {
		if strings.EqualFold(f[i].Name, name) {
			return f[i].Value, true
		}
	}
	return "", false
}

// Has reports whether a comma-separated field lists the token, in any case.
func (f Fields) Has(name, token string) bool {
	for i := range f {
		if strings.EqualFold(f[i].Name, name) && listHas(f[i].Value, token) {
			return true
		}
	}
	return false
}

func listHas(list, token string) bool {
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		if strings.EqualFold(strings.Trim(item, " \t"), token) {
			return true
		}
	}
	return false
}

// Source is a buffered reader that never holds back what it has read: after a
// head is taken, the rest stays visible in Buffered and can be handed on.
type Source struct {
	rd   io.Reader
	buf  []byte
	r, w int
}

const firstBuffer = 4 << 10

// firstBuffers are those that no source needs now. A tunnel needs one for its
// first two messages, which was half of what a fresh one allocated.
var firstBuffers = sync.Pool{New: func() any { return new([firstBuffer]byte) }}

// NewSource reads from rd.
func NewSource(rd io.Reader) *Source { return &Source{rd: rd} }

// Buffered returns the bytes that were read and not consumed yet.
func (s *Source) Buffered() []byte { return s.buf[s.r:s.w] }

// Discard consumes n buffered bytes.
func (s *Source) Discard(n int) { s.r += n }

// Release gives the buffer up when nothing is in it, so that an idle connection
// costs no memory. What Buffered returned is somebody else's from then on.
func (s *Source) Release() {
	if s.r != s.w {
		return
	}
	s.recycle()
	s.buf, s.r, s.w = nil, 0, 0
}

// recycle hands a buffer on that has the first size.
func (s *Source) recycle() {
	if len(s.buf) == firstBuffer {
		firstBuffers.Put((*[firstBuffer]byte)(s.buf))
	}
}

// Read takes buffered bytes first.
func (s *Source) Read(p []byte) (int, error) {
	if s.r < s.w {
		n := copy(p, s.buf[s.r:s.w])
		s.r += n
		return n, nil
	}
	return s.rd.Read(p)
}

// Fill reads once more from the connection into the buffer, which grows up to
// most bytes. It returns io.ErrShortBuffer when most are there already.
func (s *Source) Fill(most int) error {
	if s.r == s.w {
		s.r, s.w = 0, 0
	}
	if s.w-s.r >= most {
		return io.ErrShortBuffer
	}
	if s.w == len(s.buf) {
		s.grow(most)
	}
	n, err := s.rd.Read(s.buf[s.w:])
	s.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (s *Source) grow(most int) {
	size := max(firstBuffer, len(s.buf))
	if s.w-s.r > size/2 {
		size = min(size*2, max(most, size))
	}
	if size == len(s.buf) && s.r > 0 {
		s.w, s.r = copy(s.buf, s.buf[s.r:s.w]), 0
		return
	}
	if size == len(s.buf) {
		size *= 2
	}
	var b []byte
	if size == firstBuffer {
		b = firstBuffers.Get().(*[firstBuffer]byte)[:]
	} else {
		b = make([]byte, size)
	}
	s.w, s.r = copy(b, s.buf[s.r:s.w]), 0
	s.recycle()
	s.buf = b
}

// head takes one header section off the source: everything up to and with the
// first empty line. Every line must end in CR LF. An error that wraps io.EOF
// before the first byte means that the peer went away between messages.
func (s *Source) head(most int) (string, error) {
	for pos, line := 0, 0; ; {
		b := s.buf[s.r:s.w]
		for ; pos < len(b); pos++ {
			if b[pos] != '\n' {
				continue
			}
			if pos == line || b[pos-1] != '\r' {
				return "", refuse(400, "a line of the head does not end in CR LF")
			}
			if pos == line+1 {
				if line == 0 {
					return "", refuse(400, "the head begins with an empty line")
				}
				head := string(b[:pos+1])
				s.r += pos + 1
				return head, nil
			}
			line = pos + 1
		}
		if len(b) >= most {
			if line == 0 {
				return "", refuse(414, "the request line is longer than %d bytes", most)
			}
			return "", refuse(431, "the head is longer than %d bytes", most)
		}
		if err := s.Fill(most); err != nil {
			if len(b) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
	}
}
