package h1

import (
	"errors"
	"io"
	"strconv"
	"strings"
)

// Body reads one message body off a source and stops where the message ends.
type Body struct {
	src   *Source
	left  int64 // of the body, or of the current chunk
	kind  int64 // LengthChunked, LengthUntilClose or 0 for a counted body
	first bool
	err   error
	// peeked holds body bytes that were read ahead and are read again first.
	peeked []byte
	// Trailers of a chunked body, there after Read returned io.EOF.
	Trailers Fields
}

// NewBody returns the body of a message whose head was just taken.
func NewBody(s *Source, length int64) *Body {
	b := &Body{src: s, first: true}
	switch {
	case length < 0:
		b.kind = length
	case length == 0:
		b.err = io.EOF
	default:
		b.left = length
	}
	return b
}

// Done reports whether the whole body was read.
func (b *Body) Done() bool { return len(b.peeked) == 0 && errors.Is(b.err, io.EOF) }

// Ready reports whether the next Read need not wait for the peer.
func (b *Body) Ready() bool { return b.err != nil || b.Peeked() || len(b.src.Buffered()) > 0 }

// Peeked reports whether body bytes were read ahead.
func (b *Body) Peeked() bool { return len(b.peeked) > 0 }

// More reads on ahead, up to most bytes in all, and returns everything that is
// ahead. It returns the same bytes and io.EOF when the body ends there, and
// io.ErrShortBuffer when most bytes are there already.
func (b *Body) More(most int) ([]byte, error) {
	have := b.peeked
	if len(have) >= most {
		return have, io.ErrShortBuffer
	}
	b.peeked = nil
	buf := make([]byte, min(most-len(have), firstBuffer))
	n, err := b.Read(buf)
	b.peeked = append(have, buf[:n]...)
	return b.peeked, err
}

// TrailerFields returns Trailers.
func (b *Body) TrailerFields() Fields { return b.Trailers }

// Left returns how many bytes of a counted body are still to come, or -1.
func (b *Body) Left() int64 {
	if b.kind != 0 {
		return -1
	}
	return b.left
}

// Skip notes that n bytes of a counted body were taken off the connection by
// other means.
func (b *Body) Skip(n int64) {
	if b.left -= n; b.left == 0 && b.kind == 0 {
		b.err = io.EOF
	}
}

// Read reads body bytes. An *Error means that the framing is broken; the
// connection is of no use after any error but io.EOF.
func (b *Body) Read(p []byte) (int, error) {
	if len(b.peeked) > 0 {
		n := copy(p, b.peeked)
		b.peeked = b.peeked[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.kind == LengthUntilClose {
		n, err := b.src.Read(p)
		b.err = err
		return n, err
	}
	if b.kind == LengthChunked && b.left == 0 {
		if b.err = b.nextChunk(); b.err != nil {
			return 0, b.err
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.src.Read(p)
	b.left -= int64(n)
	switch {
	case b.left == 0 && b.kind == 0:
		b.err = io.EOF
	case b.left == 0 && n > 0: // the error, if any, comes again
	case errors.Is(err, io.EOF):
		b.err = io.ErrUnexpectedEOF
	case err != nil:
		b.err = err
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

const maxChunkLine = 4 << 10

// nextChunk reads the end of the last chunk and the next one's size line, and
// after the last chunk the trailers; then it returns io.EOF.
func (b *Body) nextChunk() error {
	if !b.first {
		line, err := b.src.line(2)
		if err != nil {
			return err
		}
		if line != "" {
			return refuse(400, "a chunk does not end where its size says")
		}
	}
	b.first = false
	line, err := b.src.line(maxChunkLine)
	if err != nil {
		return err
	}
	n, err := chunkSize(line)
	if err != nil {
		return err
	}
	if n > 0 {
		b.left = n
		return nil
	}
	if b.Trailers, err = b.src.trailers(); err != nil {
		return err
	}
	return io.EOF
}

func chunkSize(line string) (int64, error) {
	size, ext, _ := strings.Cut(line, ";")
	for i := 0; i < len(ext); i++ {
		if c := ext[i]; c < ' ' && c != '\t' || c == 0x7f {
			return 0, refuse(400, "a control byte in a chunk extension")
		}
	}
	if ext != "" {
		size = strings.TrimRight(size, " \t")
	}
	if size == "" || len(size) > 15 || strings.Trim(size, "0123456789abcdefABCDEF") != "" {
		return 0, refuse(400, "a chunk size is not a hexadecimal number")
	}
	n, err := strconv.ParseInt(size, 16, 64)
	if err != nil {
		return 0, refuse(400, "a chunk size is out of range")
	}
	return n, nil
}

// line takes one CR LF line of at most most bytes off the source.
func (s *Source) line(most int) (string, error) {
	for pos := 0; ; {
		b := s.buf[s.r:s.w]
		for ; pos < len(b); pos++ {
			if b[pos] != '\n' {
				continue
			}
			if pos == 0 || b[pos-1] != '\r' {
				return "", refuse(400, "a line of a chunked body does not end in CR LF")
			}
			line := string(b[:pos-1])
			s.r += pos + 1
			if strings.IndexByte(line, '\r') >= 0 {
				return "", refuse(400, "a bare CR in a chunked body")
			}
			return line, nil
		}
		if len(b) >= most {
			return "", refuse(400, "a line of a chunked body is too long")
		}
		if err := s.Fill(max(most, firstBuffer)); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
	}
}

// trailers reads fields up to an empty line.
func (s *Source) trailers() (Fields, error) {
	var out Fields
	for size := 0; ; {
		line, err := s.line(MaxRequestHead)
		if err != nil || line == "" {
			return out, err
		}
		if size += len(line); size > MaxRequestHead || len(out) == MaxFields {
			return nil, refuse(431, "the trailers are too large")
		}
		f, err := parseField(line)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
}

// AppendChunk appends data as one chunk.
func AppendChunk(dst, data []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// AppendLastChunk appends the end of a chunked body.
func AppendLastChunk(dst []byte, trailers Fields) []byte {
	dst = append(dst, "0\r\n"...)
	return AppendFields(dst, trailers)
}

// AppendFields appends header lines and the empty line behind them.
func AppendFields(dst []byte, fields Fields) []byte {
	for _, f := range fields {
		dst = append(dst, f.Name...)
		dst = append(dst, ": "...)
		dst = append(dst, f.Value...)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}
