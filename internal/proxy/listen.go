package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Way is what a listener is for.
type Way int

const (
	// Explicit is the proxy port that clients are configured with.
	Explicit Way = iota
	// TransparentHTTP takes connections that clients meant for port 80.
	TransparentHTTP
	// TransparentTLS takes connections that clients meant for port 443.
	TransparentTLS
)

// Serve accepts connections until Shutdown. It returns nil then, and an error
// when the listener fails for good. A lack of descriptors is waited out.
func (s *Server) Serve(l net.Listener, way Way) error {
	return s.accept(l, func(ctx context.Context, c *front) bool { return c.serveWay(ctx, way) })
}

// ServeRaw accepts connections that clients meant for one host and port, and
// carries them there as they are. It ends as Serve does.
func (s *Server) ServeRaw(l net.Listener, to egress.Authority) error {
	return s.accept(l, func(ctx context.Context, c *front) bool { c.transparentRaw(ctx, to); return false })
}

// accept is the loop of one listener; serve reports whether it handed the
// connection on.
func (s *Server) accept(l net.Listener, serve func(context.Context, *front) bool) error {
	if !s.flows.addListener(l, &s.fronts) {
		l.Close()
		return errShutdown
	}
	defer s.fronts.Done()
	want, _ := netip.ParseAddr(s.o.Node.Listen)
	for pause := time.Duration(0); ; {
		conn, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.admitConn(conn, want, serve)
		case errors.Is(err, net.ErrClosed):
			return nil
		default:
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("accept failed", "error", err, "retry_in", pause)
			time.Sleep(pause)
		}
	}
}

// admitConn starts serving one connection. Only the run's own leg is served:
// what came in over another address is dropped at once.
func (s *Server) admitConn(conn net.Conn, want netip.Addr, serve func(context.Context, *front) bool) {
	if want.IsValid() && !arrivedAt(conn, want) {
		conn.Close()
		return
	}
	l := s.flows.enter(conn)
	if l == nil {
		s.overCap(conn)
		return
	}
	s.fronts.Go(func() {
		defer s.flows.leave(l)
		c := &front{s: s, conn: conn, src: h1.NewSource(conn), live: l}
		if !serve(s.ctx, c) {
			conn.Close()
		}
	})
}

func arrivedAt(conn net.Conn, want netip.Addr) bool {
	a, ok := conn.LocalAddr().(*net.TCPAddr)
	return ok && a.AddrPort().Addr().Unmap() == want
}

func (c *front) serveWay(ctx context.Context, way Way) (handedOn bool) {
	switch way {
	case TransparentTLS:
		c.transparentTLS(ctx)
		return false
	case TransparentHTTP:
		c.entry = transparentHTTP
	}
	return c.serve(ctx)
}

// maxTurning bounds the clients that are turned away with an answer at once;
// beyond it they are just closed.
const maxTurning = 64

// overCap turns a connection away without serving it. One request is read
// first, so that the answer is not lost to a reset.
func (s *Server) overCap(conn net.Conn) {
	select {
	case s.turning <- struct{}{}:
	default:
		conn.Close()
		return
	}
	s.fronts.Go(func() {
		defer func() { conn.Close(); <-s.turning }()
		f := s.newFlow(ask{port: -1})
		r := policy.Ruling{Decision: egress.Deny, Source: policy.Limit, Cause: "too many connections from this sandbox at once",
			Hint: "close some and try again"}
		f.verdict(r, 503)
		conn.SetDeadline(time.Now().Add(2 * time.Second))
		h1.ReadRequest(h1.NewSource(conn))
		conn.Write(refusalAnswer(f, r, 503, false))
	})
}
