package cast

import (
	"bufio"
	"fmt"
	"io"
	"unicode"
)

// Plain writes a recording's output as plain text: without colours, cursor
// movements and whatever else acts on a terminal. Markers stand on lines of
// their own. Programs that draw over what they have drawn are not readable so.
func Plain(w io.Writer, r io.Reader) error {
	out := bufio.NewWriterSize(w, 64<<10)
	p := plain{out: out}
	_, err := Read(r, func(e Event) error {
		switch e.Kind {
		case KindOutput:
			p.write(e.Data)
		case KindMarker:
			p.note(e.Data)
		}
		return p.err
	})
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return out.Flush()
}

// plain drops control sequences.
type plain struct {
	out    *bufio.Writer
	err    error
	state  sequence
	inside bool // of a line
}

// sequence is where in a control sequence a terminal's output stands.
type sequence int

const (
	none    sequence = iota
	escape           // after ESC
	control          // CSI: up to a letter
	command          // OSC, DCS and their like: up to BEL or ST
	ending           // ESC inside of one
)

func (p *plain) write(s string) {
	for _, r := range s {
		if p.step(r) {
			p.put(r)
		}
	}
}

// step reports whether r is text.
func (p *plain) step(r rune) bool {
	switch p.state {
	case none:
		switch r {
		case 0x1b:
			p.state = escape
		case 0x9b:
			p.state = control
		case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
			p.state = command
		default:
			return true
		}
	case escape:
		switch r {
		case '[':
			p.state = control
		case ']', 'P', 'X', '^', '_':
			p.state = command
		case ' ', '#', '%', '(', ')', '*', '+': // one more follows
		default:
			p.state = none
		}
	case control:
		if r >= 0x40 && r <= 0x7e {
			p.state = none
		}
	case command:
		switch r {
		case 0x07, 0x9c:
			p.state = none
		case 0x1b:
			p.state = ending
		}
	case ending:
		p.state = none
	}
	return false
}

func (p *plain) put(r rune) {
	if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
		return
	}
	p.inside = r != '\n'
	if _, err := p.out.WriteRune(r); err != nil {
		p.err = err
	}
}

// note writes a line of its own.
func (p *plain) note(s string) {
	p.state = none
	if p.inside {
		p.put('\n')
	}
	p.write("[" + s + "]\n")
}
