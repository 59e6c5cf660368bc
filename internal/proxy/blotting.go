package proxy

import (
	"errors"
	"io"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/redact"
)

// pause is how long a stream must have been silent before what waits for its
// next bytes goes on: longer than the gaps inside one message of an origin, and
// short for a client that waits for that message.
const pause = 50 * time.Millisecond

// blotting reads a body without the credential that its request carried.
type blotting struct {
	rd     io.Reader
	filter *redact.Filter
	out    []byte
	end    error

	// ahead has the result of a read that is under way while bytes wait. Nothing
	// else reads rd until it is taken, and an abandoned one ends with the
	// connection.
	ahead chan aheadRead
	buf   []byte
}

type aheadRead struct {
	n   int
	err error
}

// Read returns filtered bytes.
func (b *blotting) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.end != nil {
			return 0, b.end
		}
		if b.ahead == nil && !b.filter.Waits() {
			n, err := b.rd.Read(p)
			b.take(p[:n], err)
			continue
		}
		b.readAhead(len(p))
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

func (b *blotting) take(piece []byte, err error) {
	if d, ok := b.rd.(interface{ Done() bool }); ok && err == nil && d.Done() {
		err = io.EOF // said now, for what waits
	}
	b.end = err
	b.out = b.filter.Feed(piece, errors.Is(err, io.EOF))
}

// readAhead takes the next bytes, or those that wait when no others come.
func (b *blotting) readAhead(size int) {
	if b.ahead == nil {
		if len(b.buf) == 0 {
			b.buf = make([]byte, size)
		}
		b.ahead = make(chan aheadRead, 1)
		go func(to chan<- aheadRead) {
			n, err := b.rd.Read(b.buf)
			to <- aheadRead{n, err}
		}(b.ahead)
	}
	var silent <-chan time.Time
	if b.filter.Waits() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		silent = timer.C
	}
	select {
	case r := <-b.ahead:
		b.ahead = nil
		b.take(b.buf[:r.n], r.err)
	case <-silent:
		b.out = b.filter.Pause()
	}
}
