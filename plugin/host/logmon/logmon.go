// Package logmon collects a task's output as a Nomad client's log collector does: it makes the
// FIFO that the driver writes to, reads it until the last writer closes it, and keeps what it
// read in rotated files.
//
// The end of the writers ends the collection. Nothing restarts it but the next start of the
// task; a driver that closes its end in between loses the rest of the output.
package logmon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Config says what to collect and where to.
type Config struct {
	FIFO     string    // path; made when missing
	Dir      string    // of the log files
	Name     string    // of the log files: <Name>.0, <Name>.1, ...
	MaxFiles int       // how many files are kept; default 10
	MaxBytes int64     // size of one file; default 10 MiB
	Tee      io.Writer // gets a copy of everything; may be nil
}

const (
	defaultFiles = 10
	defaultBytes = 10 << 20
	fifoMode     = 0o600
	readBytes    = 64 << 10
	releasePause = 5 * time.Millisecond
)

// Collector collects one stream of one task.
type Collector struct {
	cfg Config

	mu      sync.Mutex
	done    chan struct{} // closed when the current collection has ended; nil before the first
	err     error         // why it ended early; set before done closes
	reader  *os.File      // nil while no writer has come
	closing bool
}

// New makes the FIFO; nothing is read before Start.
func New(cfg Config) (*Collector, error) {
	if cfg.MaxFiles <= 0 {
		cfg.MaxFiles = defaultFiles
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultBytes
	}
	if err := unix.Mkfifo(cfg.FIFO, fifoMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make FIFO %s: %w", cfg.FIFO, err)
	}
	info, err := os.Lstat(cfg.FIFO)
	if err != nil {
		return nil, fmt.Errorf("make FIFO: %w", err)
	}
	if info.Mode().Type() != fs.ModeNamedPipe {
		return nil, fmt.Errorf("%s is no FIFO", cfg.FIFO)
	}
	return &Collector{cfg: cfg}, nil
}

// Start begins to collect, unless a collection is under way: that one goes on.
func (c *Collector) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		select {
		case <-c.done:
		default:
			return nil
		}
	}
	out, err := openRotator(c.cfg.Dir, c.cfg.Name, c.cfg.MaxFiles, c.cfg.MaxBytes)
	if err != nil {
		return err
	}
	c.done, c.err, c.reader, c.closing = make(chan struct{}), nil, nil, false
	go c.collect(out, c.done)
	return nil
}

// collect opens the FIFO, which waits for the first writer, and copies until the last is gone.
func (c *Collector) collect(out *rotator, done chan struct{}) {
	err := c.copyAll(out)
	err = errors.Join(err, out.Close())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.reader = err, nil
	close(done)
}

func (c *Collector) copyAll(out io.Writer) error {
	in, err := os.OpenFile(c.cfg.FIFO, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open FIFO for reading: %w", err)
	}
	defer in.Close()
	to := &copies{files: out, tee: c.cfg.Tee}
	if c.reading(in) {
		_, err = io.CopyBuffer(to, struct{ io.Reader }{in}, make([]byte, readBytes))
	}
	if err == nil || c.interrupted(err) {
		err = drain(in, to)
	}
	if err != nil {
		return fmt.Errorf("collect output: %w", err)
	}
	return nil
}

// interrupted reports whether Close made a read fail.
func (c *Collector) interrupted(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing && errors.Is(err, os.ErrDeadlineExceeded)
}

// drain copies what lies in the FIFO at this moment: a real collector goes on
// reading when its client ends, and what a FIFO holds may be gone with its
// last end.
func drain(in *os.File, out io.Writer) error {
	if err := in.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	raw, err := in.SyscallConn()
	if err != nil {
		return err
	}
	var unread int
	cerr := raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if err = errors.Join(cerr, err); err != nil {
		return err
	}
	_, err = io.CopyN(out, in, int64(unread))
	return err
}

// copies writes to the files and, as long as that works, to the copy.
type copies struct {
	files, tee io.Writer
}

func (c *copies) Write(p []byte) (int, error) {
	n, err := c.files.Write(p)
	if c.tee != nil && err == nil {
		if _, err := c.tee.Write(p); err != nil {
			c.tee = nil // the files matter more than the copy
		}
	}
	return n, err
}

// reading publishes the open FIFO so that Close can interrupt a read; false when Close came
// first.
func (c *Collector) reading(in *os.File) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reader = in
	return !c.closing
}

// Wait returns when the current collection has ended because the last writer closed the FIFO,
// at once when there is none.
func (c *Collector) Wait(ctx context.Context) error {
	c.mu.Lock()
	done := c.done
	c.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the collection, also under a writer, and returns when nothing is read any more.
// What lay in the FIFO has been collected then.
func (c *Collector) Close() error {
	c.mu.Lock()
	done := c.done
	if done == nil {
		c.mu.Unlock()
		return nil
	}
	c.closing = true
	if c.reader != nil {
		_ = c.reader.SetReadDeadline(time.Unix(1, 0)) // interrupts the read
	}
	c.mu.Unlock()
	for {
		c.release()
		select {
		case <-done:
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.err
		case <-time.After(releasePause):
		}
	}
}

// release lets a reader go that waits for its first writer, by being one for a moment.
func (c *Collector) release() {
	if w, err := os.OpenFile(c.cfg.FIFO, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0); err == nil {
		_ = w.Close() // nothing was written
	}
}
