package keeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// tapLimit bounds what is read off a fresh attach before the log is read,
	// and once more after it. It is more than an engine and the connection hold
	// back, so that what the log has of the attach is within reach. Beyond it
	// the task waits, as it does for any slow reader.
	tapLimit = 4 << 20
	// sampleMax is how much of each stream is kept to be found in the log.
	sampleMax = 64 << 10
)

// tap reads a fresh attach while the log is read, so that the two can be
// joined. What it has read goes to a file and on to the keeper.
type tap struct {
	o     runner.OutputStream
	spool *os.File
	done  chan struct{} // closed when reading has ended

	mu      sync.Mutex // guards what follows
	change  *sync.Cond // of limit and stopped
	limit   int64
	stopped bool
	size    int64 // bytes read
	count   [streams]int64
	sample  [streams][]byte
	err     error
}

// newTap takes the stream over; dir is for its file.
func newTap(o runner.OutputStream, dir string) (*tap, error) {
	f, err := unlinked(dir)
	if err != nil {
		o.Conn.Close()
		return nil, err
	}
	t := &tap{o: o, spool: f, done: make(chan struct{}), limit: tapLimit}
	t.change = sync.NewCond(&t.mu)
	go t.read()
	return t, nil
}

func (t *tap) read() {
	defer close(t.done)
	d := demux{framed: t.o.Framed}
	r := io.MultiReader(bytes.NewReader(t.o.Early), t.o.Conn)
	buf := make([]byte, 32<<10)
	for t.wanted() {
		n, err := r.Read(buf)
		if _, werr := t.spool.Write(buf[:n]); werr != nil {
			err = werr
		}
		t.mu.Lock()
		t.size += int64(n)
		// A malformed stream is the keeper's to report.
		_ = d.split(buf[:n], t.note)
		t.err = err
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// wanted waits until more is to be read, or nothing any more.
func (t *tap) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.size >= t.limit && !t.stopped {
		t.change.Wait()
	}
	return !t.stopped
}

// note needs mu.
func (t *tap) note(s stream, b []byte) error {
	t.count[s] += int64(len(b))
	t.sample[s] = append(t.sample[s], b[:min(len(b), sampleMax-len(t.sample[s]))]...)
	return nil
}

// more lets it read on, once the log has been read.
func (t *tap) more() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = t.size + tapLimit
	t.change.Broadcast()
}

// progress is how much has been read, and whether more could tell anything:
// not once every stream has begun, or the limit is reached.
func (t *tap) progress() (size int64, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begun := true
	for s := range streams {
		begun = begun && len(t.sample[s]) > 0
	}
	return t.size, !begun && t.size < t.limit
}

// catchUp reads on until nothing comes at the moment, or nothing more is needed.
func (t *tap) catchUp(ctx context.Context) error {
	t.more()
	for before := int64(-1); ; {
		if err := sleep(ctx, arrive); err != nil {
			return err
		}
		size, more := t.progress()
		if !more || size == before {
			return nil
		}
		before = size
	}
}

// seen is how each stream began, as far as it has come.
func (t *tap) seen() (seen [streams][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range streams {
		seen[s] = bytes.Clone(t.sample[s])
	}
	return seen
}

// received is how much has come of a stream; more than that may be waiting
// when the limit is reached.
func (t *tap) received(s stream) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.size >= t.limit {
		return math.MaxInt64
	}
	return t.count[s]
}

// stop ends the reading and gives the connection on, with the file of what was
// read off it before.
func (t *tap) stop() (runner.OutputStream, *os.File, int64, error) {
	t.mu.Lock()
	t.stopped = true
	t.change.Broadcast()
	t.mu.Unlock()
	t.o.Conn.SetReadDeadline(time.Unix(1, 0))
	<-t.done
	if t.err != nil && !errors.Is(t.err, os.ErrDeadlineExceeded) && t.err != io.EOF {
		return runner.OutputStream{}, nil, 0, t.err
	}
	t.o.Conn.SetReadDeadline(time.Time{})
	t.o.Early = nil
	return t.o, t.spool, t.size, nil
}

// close ends everything. A connection that has been handed over lives on.
func (t *tap) close() {
	t.mu.Lock()
	t.stopped = true
	t.change.Broadcast()
	t.mu.Unlock()
	t.o.Conn.Close()
	<-t.done
	t.spool.Close()
}
