package keeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// process stands in for a main process on an engine: what it prints goes to
// its log and, framed, to whoever is attached.
type process struct {
	mu   sync.Mutex
	log  [streams]bytes.Buffer
	conn net.Conn

	since    time.Time // see runner.LogDater
	sinceErr error
}

func (p *process) print(s stream, text string) {
	p.mu.Lock()
	p.log[s].WriteString(text)
	conn := p.conn
	p.mu.Unlock()
	if conn == nil {
		return
	}
	frame := make([]byte, frameHeader, frameHeader+len(text))
	frame[0] = byte(s + 1)
	binary.BigEndian.PutUint32(frame[4:], uint32(len(text)))
	conn.Write(append(frame, text...)) // an attacher that is gone is no concern of ours
}

func (p *process) AttachOutput(context.Context, string) (runner.OutputStream, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return runner.OutputStream{}, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if conns[i], err = net.FileConn(f); err != nil {
			return runner.OutputStream{}, err
		}
		f.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.Close()
	}
	p.conn = conns[0]
	return runner.OutputStream{Conn: conns[1], Framed: true}, nil
}

func (p *process) ReadLog(_ context.Context, _, name string) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := stdout
	if name == "stderr" {
		s = stderr
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(p.log[s].Bytes()))), nil
}

func (p *process) LogStart(context.Context, string, string) (time.Time, error) {
	return p.since, p.sinceErr
}

func (p *process) exit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.Close()
}
