package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/origin"
)

const (
	copyBuffer = 32 << 10
	chunkRoom  = 16 // for a chunk's size line, in front of the data
)

var buffers = sync.Pool{New: func() any { return new([chunkRoom + copyBuffer + 2]byte) }}

// pump carries a request body to the origin beside the reading of the answer.
type pump struct {
	done chan struct{}
	n    int64
	err  error
}

func startPump(up net.Conn, body *h1.Body, length int64) *pump {
	p := &pump{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.n, p.err = copyBody(up, nil, body, length)
		var he *h1.Error
		if errors.As(p.err, &he) {
			up.Close() // the origin must not take half a body for a whole one
		}
	}()
	return p
}

// stop ends the pump: whatever it waits for from the sandbox does not come.
func (p *pump) stop(client net.Conn) error {
	select {
	case <-p.done:
	default:
		client.SetReadDeadline(time.Unix(1, 0))
		<-p.done
		client.SetReadDeadline(time.Time{})
	}
	return p.err
}

// messageBody is what copyBody copies: *h1.Body, or one that is filtered.
type messageBody interface {
	io.Reader
	Ready() bool // the next Read need not wait
	Done() bool
	Left() int64 // of a counted body
	Skip(int64)
	TrailerFields() h1.Fields
}

// relayBody writes head and body to the sandbox, every piece as it comes. A
// counted body between two TCP connections is spliced once the buffer is empty.
func relayBody(dst net.Conn, head []byte, body messageBody, up *origin.Conn, framing int64) (int64, error) {
	if framing < 0 || body.Left() <= copyBuffer {
		return copyBody(dst, head, body, framing)
	}
	buffered := min(int64(len(up.Src.Buffered())), body.Left())
	if _, err := dst.Write(append(head, up.Src.Buffered()[:buffered]...)); err != nil {
		return 0, err
	}
	up.Src.Discard(int(buffered))
	body.Skip(buffered)
	n, err := io.CopyN(dst, up.Conn, body.Left())
	body.Skip(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return buffered + n, err
}

// copyBody writes prefix and body to dst, framed as asked. Trailers of a
// request stay here; those of an answer follow it.
func copyBody(dst net.Conn, prefix []byte, body messageBody, framing int64) (n int64, err error) {
	buf := buffers.Get().(*[chunkRoom + copyBuffer + 2]byte)
	defer buffers.Put(buf)
	trailers := prefix != nil // an answer
	if len(prefix) > 0 && !body.Ready() {
		if _, err := dst.Write(prefix); err != nil { // the head must not wait for the body
			return 0, err
		}
		prefix = nil
	}
	for {
		k, rerr := body.Read(buf[chunkRoom : chunkRoom+copyBuffer])
		piece := buf[chunkRoom : chunkRoom+k]
		if framing == h1.LengthChunked {
			piece = chunk(buf, k)
		}
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return n, rerr
		}
		if errors.Is(rerr, io.EOF) && framing == h1.LengthChunked {
			piece = h1.AppendLastChunk(piece, trailersOf(body, trailers))
		}
		if len(prefix) > 0 {
			piece = append(prefix, piece...)
			prefix = nil
		}
		if len(piece) > 0 {
			if _, err := dst.Write(piece); err != nil {
				return n, err
			}
		}
		n += int64(k)
		if rerr != nil || framing > 0 && body.Done() {
			return n, nil
		}
	}
}

// chunk frames the k bytes behind the buffer's front room in place.
func chunk(buf *[chunkRoom + copyBuffer + 2]byte, k int) []byte {
	if k == 0 {
		return buf[:0]
	}
	const digits = "0123456789abcdef"
	at := chunkRoom
	at--
	buf[at] = '\n'
	at--
	buf[at] = '\r'
	for v := k; v > 0; v >>= 4 {
		at--
		buf[at] = digits[v&15]
	}
	buf[chunkRoom+k], buf[chunkRoom+k+1] = '\r', '\n'
	return buf[at : chunkRoom+k+2]
}

// trailersOf filters an answer's trailers as header fields are filtered. Those
// of a request are dropped: nothing here expects any, and credentials could
// hide in them.
func trailersOf(body messageBody, answer bool) h1.Fields {
	if !answer {
		return nil
	}
	var out h1.Fields
	for _, f := range body.TrailerFields() {
		if keepsResponseField(f.Name, nil) {
			out = append(out, f)
		}
	}
	return out
}

// relay copies both directions of a tunnel until both have ended, passes
// half-closes on, and writes the end record.
func (c *front) relay(f *flow, up net.Conn) {
	c.conn.SetDeadline(time.Time{})
	early := c.src.Buffered()
	var sent int64
	if len(early) > 0 {
		n, err := up.Write(early)
		c.src.Discard(len(early))
		if sent = int64(n); err != nil {
			up.Close()
			f.end(sent, 0, "aborted")
			return
		}
	}
	c.src.Release()
	c.live.upstream(up)
	down := make(chan int64, 1)
	go func() { down <- c.oneWay(c.conn, up) }()
	n := c.oneWay(up, c.conn)
	got := <-down
	up.Close()
	c.conn.Close()
	f.end(sent+n, got, c.live.reason("closed"))
}

// oneWay copies until the source ends and passes its end on. A copy that fails
// ends both directions: there is nobody left to talk to.
func (c *front) oneWay(dst, src net.Conn) int64 {
	n, err := io.Copy(dst, src)
	hc, ok := dst.(halfCloser)
	if err != nil || !ok {
		dst.Close()
		src.Close()
		return n
	}
	c.live.halfClosed()
	hc.CloseWrite()
	return n
}
