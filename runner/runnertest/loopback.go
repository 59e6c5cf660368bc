package runnertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
)

// loopback is the inside of one sandbox's network: ports that its own processes
// listen on and connect to.
type loopback struct {
	mu    sync.Mutex
	ports map[string]chan net.Conn
}

// loopbackKey finds a process's loopback in its context.
type loopbackKey struct{}

func (l *loopback) listen(port string) (<-chan net.Conn, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ports[port] != nil {
		return nil, nil, fmt.Errorf("port %s is in use", port)
	}
	if l.ports == nil {
		l.ports = map[string]chan net.Conn{}
	}
	c := make(chan net.Conn)
	l.ports[port] = c
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ports, port)
	}, nil
}

func (l *loopback) dial(ctx context.Context, port string) (net.Conn, error) {
	l.mu.Lock()
	c := l.ports[port]
	l.mu.Unlock()
	if c == nil {
		return nil, fmt.Errorf("port %s: connection refused", port)
	}
	ours, theirs := net.Pipe()
	select {
	case c <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// netcat is as much of nc as the suite speaks: "nc -l ... -p PORT -e cat"
// answers one connection, "nc HOST PORT" is one.
func netcat(ctx context.Context, p *Process) int {
	l, ok := ctx.Value(loopbackKey{}).(*loopback)
	if !ok || len(p.Argv) < 3 {
		return 1
	}
	i := slices.Index(p.Argv, "-p")
	if i < 0 {
		return l.client(ctx, p, p.Argv[len(p.Argv)-1])
	}
	conns, end, err := l.listen(p.Argv[i+1])
	if err != nil {
		fmt.Fprintln(p.Stderr, "nc:", err)
		return 1
	}
	defer end()
	select {
	case c := <-conns:
		stop := context.AfterFunc(ctx, func() { c.Close() })
		defer stop()
		defer c.Close()
		io.Copy(c, c)
		return 0
	case <-ctx.Done():
		return 137
	}
}

func (l *loopback) client(ctx context.Context, p *Process, port string) int {
	c, err := l.dial(ctx, port)
	if err != nil {
		fmt.Fprintln(p.Stderr, "nc:", err)
		return 1
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	go func() {
		io.Copy(c, p.Stdin)
		c.Close() // a pipe in memory has no half to close
	}()
	io.Copy(p.Stdout, c)
	return 0
}
