package keeper

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// tapLimit bounds what is read off a fresh attach while the log is being read.
// Beyond it the task waits, as it does for any slow reader.
const tapLimit = 64 << 10

// tap reads a fresh attach while the log is read, so that the two can be joined.
type tap struct {
	o    runner.OutputStream
	done chan struct{} // closed when reading has ended
	kept bool          // stop has given the connection away

	mu  sync.Mutex // guards what follows
	raw []byte
	err error
}

func newTap(o runner.OutputStream) *tap {
	t := &tap{o: o, raw: append([]byte(nil), o.Early...), done: make(chan struct{})}
	go t.read()
	return t
}

func (t *tap) read() {
	defer close(t.done)
	b := make([]byte, 4<<10)
	for n := len(t.raw); n < tapLimit; {
		m, err := t.o.Conn.Read(b)
		t.mu.Lock()
		t.raw = append(t.raw, b[:m]...)
		t.err = err
		n = len(t.raw)
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// seen is what has come so far, of each stream.
func (t *tap) seen() (seen [streams][]byte) {
	t.mu.Lock()
	raw := bytes.Clone(t.raw)
	t.mu.Unlock()
	// The last frame may be cut short; its payload so far counts.
	_ = pump(bytes.NewReader(raw), t.o.Framed, func(s stream, b []byte) error {
		seen[s] = append(seen[s], b...)
		return nil
	})
	return seen
}

// received is how much has come of a stream; more than that may be waiting
// when the limit is reached.
func (t *tap) received(s stream) int64 {
	t.mu.Lock()
	full := len(t.raw) >= tapLimit
	t.mu.Unlock()
	if full {
		return math.MaxInt64
	}
	return int64(len(t.seen()[s]))
}

// stop ends the reading and gives the stream on, with all that was read in its Early.
func (t *tap) stop() (runner.OutputStream, error) {
	t.o.Conn.SetReadDeadline(time.Unix(1, 0))
	<-t.done
	if t.err != nil && !errors.Is(t.err, os.ErrDeadlineExceeded) && t.err != io.EOF {
		return runner.OutputStream{}, t.err
	}
	t.o.Conn.SetReadDeadline(time.Time{})
	t.o.Early = t.raw
	t.kept = true
	return t.o, nil
}

// abandon closes the connection unless stop has given it away.
func (t *tap) abandon() {
	if !t.kept {
		t.o.Conn.Close()
	}
}
