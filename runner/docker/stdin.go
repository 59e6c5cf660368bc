package docker

import (
	"fmt"
	"sync"
)

// veof is what typing Ctrl-D sends: on a terminal there is no other end of input.
const veof = 0x04

// stdin is the process's standard input.
type stdin struct{ p *process }

// typed is what has been sent to a terminal, as far as its end depends on it.
type typed struct {
	mu     sync.Mutex
	inLine bool // the line being typed has something in it
	ended  bool
}

// Write sends keystrokes, or input. After Close it is an error.
func (s stdin) Write(b []byte) (int, error) {
	t := &s.p.typed
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return 0, fmt.Errorf("standard input of %s: it was closed", s.p.ref)
	}
	n, err := s.p.link.conn.Write(b)
	if n > 0 {
		t.inLine = !endsLine(b[n-1])
	}
	return n, err
}

// Close ends the input: the process reads end of file, and its output flows on.
//
// A terminal has one connection for both ways, which the engine closes whole
// when half of it is closed: what the process prints after that would be lost.
// So the end is typed. It is one end of file, as from a keyboard, and it means
// nothing to a program that reads keys instead of lines.
func (s stdin) Close() error {
	t := &s.p.typed
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || s.p.ended() {
		return nil
	}
	t.ended = true
	var err error
	if s.p.tty {
		_, err = s.p.link.conn.Write(endOfInput(t.inLine))
	} else if c, ok := s.p.link.conn.(interface{ CloseWrite() error }); ok {
		err = c.CloseWrite()
	}
	if err != nil && !s.p.ended() {
		return fmt.Errorf("close standard input: %w", err)
	}
	return nil
}

// endOfInput is what makes the reader of a terminal see the end. In a line the
// first Ctrl-D only hands over what is in it.
func endOfInput(inLine bool) []byte {
	if inLine {
		return []byte{veof, veof}
	}
	return []byte{veof}
}

// endsLine reports whether nothing is in the line after this key.
func endsLine(key byte) bool { return key == '\n' || key == '\r' || key == veof }
