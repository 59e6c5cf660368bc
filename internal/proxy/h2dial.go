package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// dial connects to the origin for the transport, which may go on with it for
// another request when this one is over: the flow is the request's own.
func (x *h2exchange) dial(ctx context.Context) (net.Conn, error) {
	s := x.h.s
	var conn net.Conn
	if first := x.t.takeFirst(); first != nil {
		conn = first.conn
	} else if c, bad := x.dialAnew(ctx); bad != nil {
		return nil, x.failed(*bad)
	} else {
		conn = c
	}
	tc, err := s.upstreamTLS(ctx, conn, x.v.Host, "h2", "http/1.1")
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
func (x *h2exchange) dialAnew(ctx context.Context) (net.Conn, *policy.Ruling) {
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
	conn, _, bad := x.h.s.dial(ctx, &v, found, true)
	x.learn(found)
	if bad != nil {
		leave()
		return nil, bad
	}
	return &countedConn{Conn: conn, leave: sync.OnceFunc(leave)}, nil
}

// countedConn makes room for another connection when it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
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

// settle ends what the transport's goroutines may do to the request, and takes
// over what its dial found out.
func (x *h2exchange) settle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if d := x.dialled; d != nil {
		to, from := &x.f.detail, d.detail
		to.Resolved, to.DNSMillis, to.DialMillis, to.Dialed = from.Resolved, from.DNSMillis, from.DialMillis, from.Dialed
		if d.via != "" {
			x.f.viaParent()
		}
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
