package ingress

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// keepAlive finds clients that left without a word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 20 * time.Second, Count: 4}

// ServeTCP accepts connections until the listener is closed, which Shutdown
// does too. Its error is the listener's, nil once it was closed.
func (s *Server) ServeTCP(l net.Listener, p Port) error {
	if !s.enter(l) {
		l.Close()
		return nil
	}
	defer s.leave(l)
	for pause := time.Duration(0); ; {
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.admit(c, p)
		case errors.Is(err, net.ErrClosed):
			return nil
		default: // a lack of descriptors is waited out
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.o.Logger.Warn("accept failed on an inbound port", "port", p.Label, "error", err, "retry_in", pause)
			time.Sleep(pause)
		}
	}
}

func (s *Server) admit(c net.Conn, p Port) {
	s.mu.Lock()
	room := s.conns < maxConns
	if room {
		s.conns++
	}
	s.mu.Unlock()
	if !room {
		reset(c)
		s.refuse(p, "tcp", maxConns)
		return
	}
	if !s.enter(c) {
		c.Close()
		return
	}
	go func() {
		defer func() {
			c.Close()
			s.mu.Lock()
			s.conns--
			s.mu.Unlock()
			s.leave(c)
		}()
		s.carry(c, p)
	}()
}

// carry connects a client with the task. Where nothing listens the client is
// reset, which is as near as can be to the refusal it would have had.
func (s *Server) carry(c net.Conn, p Port) {
	f := s.newFlow(p, "tcp", c.RemoteAddr())
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	up, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp4", s.target(p).String())
	if err != nil {
		reset(c)
		f.end(0, 0, "the task does not listen: "+plain(err))
		return
	}
	if !s.enter(up) {
		up.Close()
		f.end(0, 0, "shutdown")
		return
	}
	defer s.leave(up)
	defer up.Close()
	if t, ok := c.(*net.TCPConn); ok {
		t.SetKeepAliveConfig(keepAlive)
	}
	var cut atomic.Bool
	down := make(chan int64, 1)
	go func() { down <- oneWay(up, c, &cut) }()
	sent := oneWay(c, up, &cut)
	got := <-down
	reason := "closed"
	if cut.Load() {
		reason = "aborted"
	}
	f.end(sent, got, reason)
}

// oneWay copies until the source ends, and passes its end on. A copy that
// fails ends both directions: there is nobody left to talk to.
func oneWay(dst, src net.Conn, cut *atomic.Bool) int64 {
	n, err := io.Copy(dst, src)
	half, ok := dst.(interface{ CloseWrite() error })
	if err != nil || !ok {
		cut.Store(true)
		dst.Close()
		src.Close()
		return n
	}
	half.CloseWrite()
	return n
}

// reset closes a connection so that the client sees an error, not an end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

// plain is a dial error without the addresses, which the record has.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}
