package ingress

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// udpIdle is how long a client and the task may both be silent before their
// session is over.
const udpIdle = 90 * time.Second

// largestDatagram is what UDP over IPv4 can carry.
const largestDatagram = 65507

// udpPort is one UDP port and the sessions on it, one a client address.
type udpPort struct {
	s    *Server
	port Port
	conn *net.UDPConn // towards clients
	idle time.Duration

	mu       sync.Mutex
	sessions map[netip.AddrPort]*session
}

// session is one client's; its socket's answers are that client's alone.
type session struct {
	flow     *flow
	up       *net.UDPConn // towards the task
	seen     atomic.Int64 // when a datagram last passed, in Unix nanoseconds
	sent     atomic.Int64 // bytes out of the sandbox
	received atomic.Int64
}

// ServeUDP carries datagrams until the socket is closed, which Shutdown does
// too. Its error is the socket's, nil once it was closed.
func (s *Server) ServeUDP(c *net.UDPConn, p Port) error {
	return s.serveUDP(c, p, udpIdle)
}

func (s *Server) serveUDP(c *net.UDPConn, p Port, idle time.Duration) error {
	if !s.enter(c) {
		c.Close()
		return nil
	}
	defer s.leave(c)
	u := &udpPort{s: s, port: p, conn: c, idle: idle, sessions: map[netip.AddrPort]*session{}}
	defer u.closeAll()
	b := make([]byte, largestDatagram)
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, unix.ECONNREFUSED):
			continue // an answer that a client did not want
		case err != nil:
			return err
		}
		if x := u.session(from); x != nil {
			x.seen.Store(time.Now().UnixNano())
			if _, err := x.up.Write(b[:n]); err == nil {
				x.received.Add(int64(n))
			}
		}
	}
}

// session is the client's session, made when it has none; nil when there is no
// room or no way to the task.
func (u *udpPort) session(from netip.AddrPort) *session {
	u.mu.Lock()
	defer u.mu.Unlock()
	if x := u.sessions[from]; x != nil {
		return x
	}
	if len(u.sessions) >= maxSessions {
		u.s.refuse(u.port, "udp", maxSessions)
		return nil
	}
	up, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(u.s.target(u.port)))
	if err != nil {
		u.s.o.Logger.Warn("no way to the task", "port", u.port.Label, "error", err)
		return nil
	}
	if !u.s.enter(up) {
		up.Close()
		return nil
	}
	x := &session{flow: u.s.newFlow(u.port, "udp", net.UDPAddrFromAddrPort(from)), up: up}
	x.seen.Store(time.Now().UnixNano())
	u.sessions[from] = x
	go u.answer(x, from)
	return x
}

// answer carries the task's datagrams back until the session is idle.
func (u *udpPort) answer(x *session, to netip.AddrPort) {
	defer u.s.leave(x.up)
	reason := u.copyBack(x, to)
	u.mu.Lock()
	delete(u.sessions, to)
	u.mu.Unlock()
	x.up.Close()
	x.flow.end(x.sent.Load(), x.received.Load(), reason)
}

func (u *udpPort) copyBack(x *session, to netip.AddrPort) (reason string) {
	b := make([]byte, largestDatagram)
	for {
		quiet := time.Since(time.Unix(0, x.seen.Load()))
		if quiet >= u.idle {
			return "idle"
		}
		x.up.SetReadDeadline(time.Now().Add(u.idle - quiet))
		n, err := x.up.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case errors.Is(err, unix.ECONNREFUSED): // the task does not listen, or not yet
			continue
		case err != nil:
			return "closed"
		}
		x.seen.Store(time.Now().UnixNano())
		if _, err := u.conn.WriteToUDPAddrPort(b[:n], to); err == nil {
			x.sent.Add(int64(n))
		}
	}
}

// closeAll ends every session.
func (u *udpPort) closeAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.sessions {
		x.up.Close()
	}
}
