package keeper

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A FIFO has no reader before the log collector opens it, and none after the
// collector died; both are waited out at this pace.
const readerPoll = 50 * time.Millisecond

// fifo is the write end of one log FIFO (or of /dev/null, or of a file). It is
// opened when the first reader is there and stays open until close. write is
// called by one goroutine; close by any.
type fifo struct {
	path string

	mu       sync.Mutex // guards what follows
	f        *os.File
	closed   bool
	deadline time.Time // of writes; zero is none
}

var errFIFOClosed = errors.New("log file closed")

// open opens the write end without waiting for a reader. It reports false when
// there is none yet.
func (x *fifo) open() (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return false, errFIFOClosed
	case x.f != nil:
		return true, nil
	}
	fd, err := unix.Open(x.path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_APPEND|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, &os.PathError{Op: "open", Path: x.path, Err: err}
	}
	x.f = os.NewFile(uintptr(fd), x.path)
	x.applyDeadline()
	return true, nil
}

// hold keeps trying until the write end is open, ctx ends or the FIFO cannot
// be opened at all.
func (x *fifo) hold(ctx context.Context) error {
	for {
		if ok, err := x.open(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(readerPoll):
		}
	}
}

// write writes all of b and tells noted of each part that went out. It waits
// while there is no reader or the reader is slow, until ctx ends or close.
func (x *fifo) write(ctx context.Context, b []byte, noted func([]byte)) error {
	for len(b) > 0 {
		if err := x.hold(ctx); err != nil {
			return err
		}
		x.mu.Lock()
		f := x.f
		x.mu.Unlock()
		if f == nil {
			return errFIFOClosed
		}
		n, err := f.Write(b)
		if n > 0 {
			noted(b[:n])
			b = b[n:]
		}
		switch {
		case err == nil:
		case errors.Is(err, unix.EPIPE):
			// The collector is gone. The same descriptor works again with the next one.
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(readerPoll):
			}
		default:
			return err
		}
	}
	return nil
}

// interrupt makes a write that waits return; resume makes writes possible again.
func (x *fifo) interrupt() { x.setDeadline(time.Unix(1, 0)) }
func (x *fifo) resume()    { x.setDeadline(time.Time{}) }

func (x *fifo) setDeadline(at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deadline = at
	x.applyDeadline()
}

// applyDeadline needs mu.
func (x *fifo) applyDeadline() {
	if x.f != nil {
		// Files that cannot wait (/dev/null, regular ones) take no deadline.
		_ = x.f.SetWriteDeadline(x.deadline)
	}
}

// close ends the FIFO; a write that waits returns.
func (x *fifo) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.f == nil {
		return nil
	}
	f := x.f
	x.f = nil
	return f.Close()
}
