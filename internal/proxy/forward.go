package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/origin"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// forward judges one request that has a destination and carries it there.
func (c *front) forward(ctx context.Context, f *flow, req h1.Request, d destination) step {
	v := c.s.admit(ctx, f.ask)
	if !v.OK() {
		return c.refuse(f, req, v.Ruling, statusFor(v.Ruling))
	}
	f.ask.host, f.detail.Visibility = v.Host.String(), "full"
	if c.entry == explicit || c.entry == transparentHTTP {
		c.live.dependOn(v)
	}
	if d.mismatch {
		v.Cause = strings.TrimPrefix(v.Cause+"; the Host header named another host than the target and was replaced", "; ")
	}
	x := &exchange{c: c, f: f, req: req, d: d, v: v, tls: c.entry == tunnelTLS, out: outbound{
		methodList: c.s.policy.HasMethodList(), websocket: websocketUpgrade(req.Method, req.Fields),
	}}
	f.detail.MITM = x.tls
	if x.tls || c.s.policy.InjectsInClear(v.Authority) {
		cred, err := c.s.credentialFor(ctx, v.Authority)
		if err != nil {
			return c.refuse(f, req, credentialRuling(v.Host), 502)
		}
		if x.out.inject = cred; cred != nil {
			f.detail.InjectedBy = v.Host.String()
		}
	}
	return x.run(ctx)
}

// key says which idle connections may carry this exchange.
func (x *exchange) key() origin.Key {
	return origin.Key{Authority: x.v.Authority, TLS: x.tls, Credential: x.f.detail.InjectedBy}
}

// connect returns a connection to the origin: one that was dialled with the
// tunnel, an idle one, or a new one to a vetted address. A connection that is
// kept was vetted when it was dialled, so it needs no new resolution.
func (x *exchange) connect(ctx context.Context, fresh bool) (*origin.Conn, *policy.Ruling) {
	if t := x.c.first; t != nil && !fresh {
		x.c.first = nil
		if t.usable() {
			return x.prepare(ctx, t.conn, t.addr)
		}
		t.conn.Close()
	}
	if !fresh {
		if o := x.c.s.pool.Get(x.key()); o != nil {
			return o, nil
		}
	}
	if x.c.s.vet(ctx, &x.v); !x.v.OK() {
		return nil, &x.v.Ruling
	}
	tunnel := x.tls || x.out.websocket
	conn, addr, bad := x.c.s.dial(ctx, &x.v, x.f, tunnel)
	if bad != nil {
		return nil, bad
	}
	up, bad := x.prepare(ctx, conn, addr)
	if bad == nil {
		up.Hop = x.v.through && !tunnel
	}
	return up, bad
}

// prepare makes a TCP connection ready for requests: TLS where the way in was TLS.
func (x *exchange) prepare(ctx context.Context, conn net.Conn, addr netip.AddrPort) (*origin.Conn, *policy.Ruling) {
	if !x.tls {
		return origin.NewConn(conn, conn, addr), nil
	}
	tc, err := x.c.s.upstreamTLS(ctx, conn, x.v.Host, "http/1.1")
	if err != nil {
		conn.Close()
		return nil, tlsRuling(x.v.Authority, err)
	}
	return origin.NewConn(tc, conn, addr), nil
}

// dial connects to one of the vetted addresses, or to the upstream proxy; with
// tunnel set the connection is end to end in either case.
func (s *Server) dial(ctx context.Context, v *verdict, f *flow, tunnel bool) (net.Conn, netip.AddrPort, *policy.Ruling) {
	if v.through {
		f.viaParent()
		return s.openParent(ctx, v.Authority, tunnel)
	}
	f.detail.Resolved = f.detail.Resolved[:0]
	for _, a := range v.addrs {
		f.detail.Resolved = append(f.detail.Resolved, a.String())
	}
	f.detail.DNSMillis = v.dns.Milliseconds()
	start := time.Now()
	conn, addr, err := origin.DialAny(ctx, s.dialer(v.Host), v.addrs, v.Port)
	f.detail.DialMillis = time.Since(start).Milliseconds()
	if err != nil {
		return nil, addr, &policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed,
			Cause: fmt.Sprintf("connect to %s: %s", v.Authority, dialCause(err)), Hint: "policy allows this host; it did not answer"}
	}
	f.detail.Dialed = addr.Addr().String()
	return conn, addr, nil
}

// keepAlive finds dead origins; interval and count stay the kernel's, which
// saves two calls a connection.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: -1, Count: -1}

// dialer returns the seam's dial function, or the network's with the address
// guard on the socket.
func (s *Server) dialer(h egress.Host) origin.DialFunc {
	if s.o.Dial != nil {
		return s.o.Dial
	}
	d := net.Dialer{KeepAliveConfig: keepAlive, ControlContext: s.guard.Control(h)}
	return func(ctx context.Context, ap netip.AddrPort) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", ap.String())
	}
}

// noAnswer ends the cause of what is a timeout.
const noAnswer = "no answer in time"

// dialCause names what went wrong without the addresses inside.
func dialCause(err error) string {
	var oe *net.OpError
	switch {
	case isTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return noAnswer
	case errors.As(err, &oe) && oe.Err != nil && (oe.Addr != nil || oe.Source != nil):
		return oe.Err.Error()
	}
	return err.Error()
}

func tlsRuling(a egress.Authority, err error) *policy.Ruling {
	return &policy.Ruling{Decision: egress.Deny, Source: policy.UpstreamTLS,
		Cause: fmt.Sprintf("TLS to %s: %s", a, tlsCause(err)), Hint: tlsHint(err)}
}

func credentialRuling(h egress.Host) policy.Ruling {
	return policy.Ruling{Decision: egress.Deny, Source: policy.UpstreamTLS,
		Cause: "the credential for " + h.String() + " could not be renewed", Hint: "nothing is sent without it; try again later"}
}

func tlsCause(err error) string {
	var ce *tls.CertificateVerificationError
	if errors.As(err, &ce) {
		return "its certificate is not valid: " + ce.Err.Error()
	}
	return dialCause(err)
}

func tlsHint(err error) string {
	var ce *tls.CertificateVerificationError
	if errors.As(err, &ce) {
		return "the operator can add the issuer to the roots that the sidecar trusts (ca_file)"
	}
	return "the origin may ask for a client certificate or refuse proxies; without interception it would be a plain tunnel"
}
