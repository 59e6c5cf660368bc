package keeper

import (
	"encoding/binary"
	"fmt"
	"io"
)

// stream is one of a main process's two outputs.
type stream int

const (
	stdout stream = iota
	stderr
	streams // their number
)

func (s stream) String() string { return [...]string{"stdout", "stderr"}[s] }

// chunkSize bounds what is read, and so written, at once: it is the most that
// a killed keeper can have delivered without noting it.
const chunkSize = 16 << 10

// frameHeader is the length of a frame's head; see runner.OutputStream.
const frameHeader = 8

// pump reads an output to its end and gives each piece to deliver, in order. A
// piece is valid during the call only. The error is nil at a clean end.
func pump(r io.Reader, framed bool, deliver func(stream, []byte) error) error {
	buf := make([]byte, chunkSize)
	if !framed {
		return pieces(r, buf, -1, func(b []byte) error { return deliver(stdout, b) })
	}
	for {
		head := buf[:frameHeader]
		if _, err := io.ReadFull(r, head); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if head[0] > 2 {
			return fmt.Errorf("output stream: frame of unknown kind %d", head[0])
		}
		to := stdout
		if head[0] == 2 {
			to = stderr
		}
		n := int64(binary.BigEndian.Uint32(head[4:]))
		if err := pieces(r, buf, n, func(b []byte) error { return deliver(to, b) }); err != nil {
			return err
		}
	}
}

// pieces passes n bytes on as they come; a negative n means all there are.
func pieces(r io.Reader, buf []byte, n int64, deliver func([]byte) error) error {
	for n != 0 {
		b := buf
		if n > 0 && n < int64(len(b)) {
			b = b[:n]
		}
		m, err := r.Read(b)
		if m > 0 {
			if derr := deliver(b[:m]); derr != nil {
				return derr
			}
			if n > 0 {
				n -= int64(m)
			}
		}
		switch {
		case err == nil:
		case err == io.EOF && n < 0:
			return nil
		case err == io.EOF && n == 0:
			return nil
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
	return nil
}
