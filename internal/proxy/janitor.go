package proxy

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Times of the janitor. Bytes count, not the clock: a stream that says
// something now and then lives as long as it likes.
const (
	tick       = time.Second
	lookEvery  = 15 * time.Second // at the sockets of each connection
	stallLimit = 2 * time.Minute  // bytes wait to be sent and nobody takes them
	halfLimit  = 5 * time.Minute  // the client, or one direction, has ended, and the rest is silent
	quietLimit = 2 * time.Hour    // nothing in either direction
)

// janitor is the one goroutine that looks after everything that is open. It
// keeps timers off the connections themselves, so that the kernel can copy.
func (s *Server) janitor() {
	t := time.NewTicker(tick)
	defer t.Stop()
	looked := time.Now()
	rest := restful{quiet: s.o.Quiet}
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-t.C:
			s.checkApprovals()
			rest.note(now, s.flows.busy())
			if now.Sub(looked) >= lookEvery {
				looked = now
				s.pool.Prune(now)
				for _, l := range s.flows.all() {
					l.look(now)
				}
			}
		}
	}
}

// restful calls quiet once each time that nothing has been open for a while.
type restful struct {
	quiet func()
	since time.Time // zero while something is open, or when quiet was called
	used  bool
}

const restAfter = 10 * time.Second

func (r *restful) note(now time.Time, busy bool) {
	switch {
	case busy:
		r.used, r.since = true, time.Time{}
	case r.used && r.since.IsZero():
		r.since = now
	case r.used && r.quiet != nil && now.Sub(r.since) >= restAfter:
		r.used = false
		r.quiet()
	}
}

// checkApprovals reads every approval that something open depends on, and cuts
// what was let through by one that is gone.
func (s *Server) checkApprovals() {
	users := map[egress.Authority][]*live{}
	for _, l := range s.flows.all() {
		if a, ok := l.approvedFor(); ok {
			users[a] = append(users[a], l)
		}
	}
	for a, lives := range users {
		if s.book.Refresh(s.ctx, a) == policy.Approved {
			continue
		}
		for _, l := range lives {
			l.cut(revoked)
		}
	}
}

// revoked is the reason of a flow whose approval was taken back.
const revoked = "revoked"

// socketState is what the kernel says of a connection's traffic.
type socketState struct {
	moved   uint64 // bytes received and acknowledged so far
	waiting bool   // bytes are queued that the peer does not take
	ended   bool   // the peer sends no more
	gone    bool   // the peer has reset the connection
}

// States of a socket, as the kernel numbers them.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

func stateOf(c net.Conn) socketState {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return socketState{}
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return socketState{}
	}
	var st socketState
	rc.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			st = socketState{moved: info.Bytes_received + info.Bytes_acked, waiting: info.Notsent_bytes > 0,
				ended: info.State == tcpCloseWait, gone: info.State == tcpClose}
		}
	})
	return st
}

// look cuts a connection on which nothing moves for too long. That the client has
// left is seen here and nowhere else while its request waits for an answer:
// nobody reads from it then. One that has only said that it sends no more looks
// the same as one that has closed.
func (l *live) look(now time.Time) {
	l.mu.Lock()
	conn, up, resting, half := l.conn, l.up, l.rest, l.half
	l.mu.Unlock()
	if resting {
		return // its read deadline looks after it
	}
	st := stateOf(conn)
	if up != nil {
		other := stateOf(up)
		st.moved, st.waiting = st.moved+other.moved, st.waiting || other.waiting
	}
	l.mu.Lock()
	if st.moved != l.moved || l.movedAt.IsZero() {
		l.moved, l.movedAt = st.moved, now
	}
	quiet := now.Sub(l.movedAt)
	l.mu.Unlock()
	switch {
	case st.gone:
		l.cut("the client has left")
	case st.waiting && quiet >= stallLimit:
		l.cut("stalled")
	case (half || st.ended) && quiet >= halfLimit:
		l.cut("half-closed and silent")
	case quiet >= quietLimit:
		l.cut("idle")
	}
}
