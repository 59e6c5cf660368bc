package proxy

import (
	"net"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Caps on what a sandbox can hold open at once.
const (
	maxConns   = 512
	maxTunnels = 512
)

// registry knows every listener and every connection from the sandbox, so that
// they can be counted, and cut.
type registry struct {
	mu        sync.Mutex
	listeners map[net.Listener]bool
	lives     map[*live]bool
	tunnels   int
	closing   bool
}

// live is the handle on one connection from the sandbox.
type live struct {
	mu       sync.Mutex
	conn     net.Conn
	up       net.Conn
	rest     bool // waits for a request
	half     bool // one direction has ended
	why      string
	approved egress.Authority // what an approval let through; zero for nothing
	moved    uint64
	movedAt  time.Time
}

// dependOn notes that what runs on the connection stands on an approval.
func (l *live) dependOn(v verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.approved = (egress.Authority{}); v.Approval != nil {
		l.approved = v.Authority
	}
}

func (l *live) approvedFor() (egress.Authority, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.approved, l.approved.Port != 0 && !l.rest
}

// halfClosed notes that one direction of a tunnel has ended.
func (l *live) halfClosed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.half = true
}

// idle notes whether the connection waits for a request.
func (l *live) idle(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rest = on; on && l.why != "" {
		l.conn.Close()
	}
}

// upstream notes the connection that a cut has to close as well.
func (l *live) upstream(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up = c; c != nil && l.why != "" {
		c.Close()
	}
}

// cut closes the connection and what hangs on it; the first reason stays.
func (l *live) cut(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == "" {
		l.why = why
	}
	l.conn.Close()
	if l.up != nil {
		l.up.Close()
	}
}

// reason is why the connection was cut, or other when it was not.
func (l *live) reason(other string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != "" {
		return l.why
	}
	return other
}

// enter counts a connection in; nil means that there is no room.
func (r *registry) enter(c net.Conn) *live {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing || len(r.lives) >= maxConns {
		return nil
	}
	if r.lives == nil {
		r.lives = map[*live]bool{}
	}
	l := &live{conn: c}
	r.lives[l] = true
	return l
}

// busy reports whether any connection is open.
func (r *registry) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lives) > 0
}

func (r *registry) leave(l *live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lives, l)
}

// openTunnel counts a tunnel in; false means that there is no room.
func (r *registry) openTunnel() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tunnels >= maxTunnels {
		return false
	}
	r.tunnels++
	return true
}

func (r *registry) closeTunnel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tunnels--
}

// addListener counts an accept loop in, so that whoever waits for all
// connections waits for it first. It reports false when the server is closing.
func (r *registry) addListener(l net.Listener, loops *sync.WaitGroup) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return false
	}
	if r.listeners == nil {
		r.listeners = map[net.Listener]bool{}
	}
	r.listeners[l] = true
	loops.Add(1)
	return true
}

func (r *registry) closeListeners() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = true
	for l := range r.listeners {
		l.Close()
	}
}

// closeIdle ends connections that wait for a request.
func (r *registry) closeIdle() {
	for _, l := range r.all() {
		l.mu.Lock()
		if l.rest {
			l.why = "shutdown"
			l.conn.Close()
		}
		l.mu.Unlock()
	}
}

// cutAll ends everything.
func (r *registry) cutAll(why string) {
	for _, l := range r.all() {
		l.cut(why)
	}
}

func (r *registry) all() []*live {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*live, 0, len(r.lives))
	for l := range r.lives {
		out = append(out, l)
	}
	return out
}
