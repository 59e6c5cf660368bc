package runnertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	streamStdout = 1
	streamStderr = 2
)

// output is what a main process printed: the log of it all, and the
// connections that follow it. A connection nobody reads from blocks the
// process, as the real ones do.
type output struct {
	framed bool
	order  sync.Mutex // one write at a time

	mu     sync.Mutex
	log    map[byte]*bytes.Buffer
	live   []net.Conn
	closed bool
}

func newOutput(framed bool) *output {
	return &output{framed: framed, log: map[byte]*bytes.Buffer{streamStdout: {}, streamStderr: {}}}
}

// stream is one of the two ends a process writes to.
type stream struct {
	o  *output
	id byte
}

func (s stream) Write(b []byte) (int, error) {
	s.o.order.Lock()
	defer s.o.order.Unlock()
	s.o.mu.Lock()
	s.o.log[s.id].Write(b)
	live := slices.Clone(s.o.live)
	s.o.mu.Unlock()
	for _, c := range live {
		if _, err := c.Write(s.o.frame(s.id, b)); err != nil {
			s.o.drop(c)
		}
	}
	return len(b), nil
}

func (o *output) frame(id byte, b []byte) []byte {
	if !o.framed {
		return b
	}
	f := make([]byte, 8, 8+len(b))
	f[0] = id
	binary.BigEndian.PutUint32(f[4:], uint32(len(b)))
	return append(f, b...)
}

// attach opens a connection that carries everything printed from now on.
func (o *output) attach() (runner.OutputStream, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return runner.OutputStream{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		ours.Close()
	} else {
		o.live = append(o.live, ours)
	}
	return runner.OutputStream{Conn: theirs, Framed: o.framed}, nil
}

func (o *output) drop(c net.Conn) {
	c.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.live = slices.DeleteFunc(o.live, func(l net.Conn) bool { return l == c })
}

// reopen readies the output for another start of the same process.
func (o *output) reopen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = false
}

// close ends every connection; what was written before is still read.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, c := range o.live {
		c.Close()
	}
	o.live = nil
}

// read is the whole log of a stream so far.
func (o *output) read(name string) ([]byte, error) {
	id := map[string]byte{"stdout": streamStdout, "stderr": streamStderr}[name]
	if id == 0 {
		return nil, fmt.Errorf("stream %q: %w: want stdout or stderr", name, runner.ErrInvalid)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.log[id].Bytes()), nil
}

// socketpair is a connected pair with a descriptor behind each end, so that
// one can be passed on to another process.
func socketpair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	if a, err = conn(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	if b, err = conn(fds[1]); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

func conn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "output")
	defer f.Close()
	return net.FileConn(f)
}
