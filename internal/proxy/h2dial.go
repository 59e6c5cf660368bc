package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// dial connects to the origin for the transport, which may go on with it for
// another request when this one is over: the flow is the request's own.
func (x *h2exchange) dial(ctx context.Context) (net.Conn, error) {
	var conn *originConn
	if first := x.t.takeFirst(); first != nil {
		conn = &originConn{Conn: first.conn, addr: first.addr, leave: func() {}}
	} else if c, bad := x.dialAnew(ctx); bad != nil {
		return nil, x.failed(*bad)
	} else {
		conn = c
	}
	tc, err := x.h.s.upstreamTLS(ctx, conn, x.v.Host, "h2", "http/1.1")
	if err != nil {
		conn.Close()
		return nil, x.failed(*tlsRuling(x.v.Authority, err))
	}
	return tc, nil
}

// maxOrigins bounds the connections that are dialled for requests over HTTP/2:
// each of the hundred streams of a tunnel may want one of its own.
const maxOrigins = maxConns

// dialAnew vets the host once more and connects to it.
func (x *h2exchange) dialAnew(ctx context.Context) (*originConn, *policy.Ruling) {
	select {
	case x.h.origins <- struct{}{}:
	default:
		return nil, &policy.Ruling{Decision: egress.Deny, Source: policy.Limit,
			Cause: "too many connections to origins at once", Hint: "have fewer requests under way and try again"}
	}
	leave := func() { <-x.h.origins }
	v, found := x.v, &flow{}
	if x.h.s.vet(ctx, &v); !v.OK() {
		leave()
		return nil, &v.Ruling
	}
	conn, addr, bad := x.h.s.dial(ctx, &v, found, true)
	x.learn(found)
	if bad != nil {
		leave()
		return nil, bad
	}
	return &originConn{Conn: conn, addr: addr, leave: sync.OnceFunc(leave)}, nil
}

// originConn is a connection to an origin, below its TLS. It makes room for
// another when it is closed.
type originConn struct {
	net.Conn
	addr  netip.AddrPort // what was dialled
	leave func()
}

// Close closes the connection.
func (c *originConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

func (x *h2exchange) failed(r policy.Ruling) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bad = &r
	return errors.New(r.Cause)
}

func (x *h2exchange) learn(found *flow) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dialled = found
}

// carried notes the connection that the transport found for the request.
func (x *h2exchange) carried(by httptrace.GotConnInfo) {
	tc, ok := by.Conn.(*tls.Conn)
	if !ok {
		return
	}
	if c, ok := tc.NetConn().(*originConn); ok {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.addr = c.addr
	}
}

// settle ends what the transport's goroutines may do to the request, and takes
// over what its dial found out.
func (x *h2exchange) settle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	to := &x.f.detail
	if x.dialled != nil {
		from := x.dialled.detail
		to.Resolved, to.DNSMillis, to.DialMillis = from.Resolved, from.DNSMillis, from.DialMillis
	}
	switch {
	case x.h.s.through(x.v.Authority):
		x.f.viaParent()
	case x.addr.IsValid():
		to.Dialed = x.addr.Addr().String()
	}
}

// interim hands an interim answer on, unless the request is over: then nobody
// may touch w any more.
func (x *h2exchange) interim(w http.ResponseWriter, cred *credential, code int, h http.Header) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return nil
	}
	if x.interims++; x.interims > h1.MaxInterim {
		r := misbehaved(x.v.Authority, policy.DialFailed, h1.ErrInterim.Error())
		x.bad = &r
		return h1.ErrInterim
	}
	blotHeader(h, cred)
	out := w.Header()
	copyHeader(out, h)
	// Where there is a length to leave out the library writes a copy of the
	// fields, and else the map itself, maybe after WriteHeader when the client is
	// gone.
	out["Content-Length"] = nil
	w.WriteHeader(code)
	clear(out)
	return nil
}
