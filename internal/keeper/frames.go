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
	d := demux{framed: framed}
	buf := make([]byte, chunkSize)
	for {
		n, err := r.Read(buf)
		if derr := d.split(buf[:n], deliver); derr != nil {
			return derr
		}
		switch {
		case err == nil:
		case err == io.EOF && d.inFrame():
			return io.ErrUnexpectedEOF
		case err == io.EOF:
			return nil
		default:
			return err
		}
	}
}

// demux takes the frames of a stream apart, wherever reads have cut it.
type demux struct {
	framed bool
	head   [frameHeader]byte
	have   int   // bytes of the head seen
	left   int64 // bytes of the payload still to come
	to     stream
}

// inFrame: an end of the stream here cuts a frame.
func (d *demux) inFrame() bool { return d.have > 0 || d.left > 0 }

// split gives the payloads in p to deliver. Those that follow each other on one
// stream go as one piece: a program that prints by the line has a frame a
// line. p is overwritten for that.
func (d *demux) split(p []byte, deliver func(stream, []byte) error) error {
	piece, of := p[:0], stdout
	flush := func() error {
		if len(piece) == 0 {
			return nil
		}
		b := piece
		piece = p[:0]
		return deliver(of, b)
	}
	for rest := p; len(rest) > 0; {
		var (
			payload []byte
			err     error
		)
		if payload, rest, err = d.next(rest); err != nil {
			flush()
			return err
		}
		if d.to != of {
			if err := flush(); err != nil {
				return err
			}
			of = d.to
		}
		piece = append(piece, payload...) // ends before what is still to be read
	}
	return flush()
}

// next cuts off p what belongs together: a payload, or a part of one, of the
// stream d.to. It may be empty.
func (d *demux) next(p []byte) (payload, rest []byte, err error) {
	if !d.framed {
		return p, nil, nil
	}
	if d.left == 0 {
		n := copy(d.head[d.have:], p)
		d.have, p = d.have+n, p[n:]
		if d.have < frameHeader {
			return nil, nil, nil
		}
		d.have = 0
		if h := d.head; h[0] < 1 || h[0] > 2 || h[1]|h[2]|h[3] != 0 {
			return nil, nil, fmt.Errorf("output stream: % x is no head of a frame", h)
		}
		d.to = stream(d.head[0] - 1)
		d.left = int64(binary.BigEndian.Uint32(d.head[4:]))
	}
	n := min(d.left, int64(len(p)))
	d.left -= n
	return p[:n], p[n:], nil
}
