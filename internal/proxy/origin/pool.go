package origin

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Key says which requests may share a connection. Requests that carry an
// injected credential never share one with others.
type Key struct {
	egress.Authority
	TLS bool
	// Credential names the one that requests carry; empty for none.
	Credential string
}

// Conn is a connection to an origin.
type Conn struct {
	net.Conn
	// TCP is the connection below TLS, or Conn itself.
	TCP net.Conn
	// Src reads from Conn.
	Src *h1.Source
	// Addr is what was dialled.
	Addr netip.AddrPort
	// Hop: requests on it go to the upstream proxy, not to the origin itself.
	Hop bool
	// Reused: the connection served a request before.
	Reused bool

	idleSince time.Time
}

// NewConn wraps a fresh connection; tcp is what lies below conn.
func NewConn(conn, tcp net.Conn, addr netip.AddrPort) *Conn {
	return &Conn{Conn: conn, TCP: tcp, Src: h1.NewSource(conn), Addr: addr}
}

// Limits of the pool.
const (
	maxIdle       = 64
	maxIdlePerKey = 8
	idleTimeout   = 60 * time.Second
)

// Pool keeps idle connections. The zero Pool is ready.
type Pool struct {
	mu     sync.Mutex
	idle   map[Key][]*Conn
	n      int
	closed bool
}

// Get takes a live idle connection out of the pool, or returns nil.
func (p *Pool) Get(k Key) *Conn {
	for {
		c := p.pop(k)
		if c == nil || usable(c, time.Now()) {
			return c
		}
		c.Close()
	}
}

func (p *Pool) pop(k Key) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[k]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	if list = list[:len(list)-1]; len(list) == 0 {
		delete(p.idle, k)
	} else {
		p.idle[k] = list
	}
	p.n--
	return c
}

// Put gives a connection back whose last answer was read to its end. When the
// pool is full the connection is closed.
func (p *Pool) Put(k Key, c *Conn) {
	c.Reused, c.idleSince = true, time.Now()
	unasked := len(c.Src.Buffered()) > 0
	c.Src.Release() // once pushed, the connection is somebody else's
	if unasked || !p.push(k, c) {
		c.Close()
	}
}

func (p *Pool) push(k Key, c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.n >= maxIdle || len(p.idle[k]) >= maxIdlePerKey {
		return false
	}
	if p.idle == nil {
		p.idle = map[Key][]*Conn{}
	}
	p.idle[k] = append(p.idle[k], c)
	p.n++
	return true
}

// Prune closes connections that were idle for too long.
func (p *Pool) Prune(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, list := range p.idle {
		keep := list[:0]
		for _, c := range list {
			if now.Sub(c.idleSince) < idleTimeout {
				keep = append(keep, c)
				continue
			}
			c.Close()
			p.n--
		}
		clear(list[len(keep):])
		if p.idle[k] = keep; len(keep) == 0 {
			delete(p.idle, k)
		}
	}
}

// Close closes every idle connection and takes no more.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, list := range p.idle {
		for _, c := range list {
			c.Close()
		}
	}
	p.idle, p.n = nil, 0
}
