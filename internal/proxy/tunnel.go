package proxy

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/origin"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// peekTimeout is how long a client may take for its first bytes.
const peekTimeout = 10 * time.Second

// tunnelOrigin is the connection that was dialled when a tunnel opened.
type tunnelOrigin struct {
	conn net.Conn
	addr netip.AddrPort
}

// usable reports whether the origin still waits for the first request. A client
// may open its tunnel long before it has one.
func (t *tunnelOrigin) usable() bool { return origin.Quiet(t.conn) }

// connect serves one CONNECT: verdict, dial, 200, then a look at the first bytes.
func (c *front) connect(ctx context.Context, req h1.Request) step {
	host, port := splitPort(req.Target, 0)
	if port == 0 {
		port = -1
	}
	f := c.s.newFlow(ask{host: host, port: port, method: req.Method})
	if req.Length != 0 {
		return c.refuseWith(f, req, policy.BadRequest, "a CONNECT has no body", 400)
	}
	if !c.s.flows.openTunnel() {
		return c.refuse(f, req, policy.Ruling{Decision: egress.Deny, Source: policy.Limit,
			Cause: "too many tunnels from this sandbox at once", Hint: "close some and try again"}, 503)
	}
	defer c.s.flows.closeTunnel()
	v := c.s.decide(ctx, f.ask)
	if !v.OK() {
		return c.refuse(f, req, v.Ruling, statusFor(v.Ruling))
	}
	f.ask.host = v.Host.String()
	conn, addr, bad := c.s.dial(ctx, &v, f, true)
	if bad != nil {
		return c.refuse(f, req, *bad, dialStatus(bad))
	}
	if c.write([]byte("HTTP/1.1 200 Connection Established\r\n\r\n")) != nil {
		conn.Close()
		return hangup
	}
	c.openedTunnel(ctx, f, v, tunnelOrigin{conn, addr})
	return hangup
}

// openedTunnel carries a tunnel whose 200 is out.
func (c *front) openedTunnel(ctx context.Context, f *flow, v verdict, up tunnelOrigin) {
	c.live.upstream(up.conn)
	c.live.dependOn(v)
	if v.Raw {
		c.carryRaw(f, v, up.conn)
		return
	}
	first, bad := c.peek(v.Authority)
	if bad != nil {
		up.conn.Close()
		c.refuseTunnel(f, *bad)
		return
	}
	c.carry(ctx, f, v, up, first)
}

// carryRaw relays a tunnel that an entry with +tcp admits.
func (c *front) carryRaw(f *flow, v verdict, up net.Conn) {
	f.detail.Visibility = "host"
	f.verdict(v.Ruling, 200)
	c.relay(f, up)
}

// carry hands a tunnel to what its first bytes are.
func (c *front) carry(ctx context.Context, f *flow, v verdict, up tunnelOrigin, first firstBytes) {
	f.detail.SNI, f.detail.ALPN = printable(first.sni), printable(first.alpn)
	switch {
	case first.http:
		f.detail.Visibility = "full"
		f.verdict(v.Ruling, 200)
		c.serveInside(ctx, f, v, up, tunnelHTTP)
	case c.s.intercepts(v.Host):
		f.detail.Visibility, f.detail.MITM = "full", true
		f.verdict(v.Ruling, 200)
		c.intercept(ctx, f, v, up)
	default:
		f.detail.Visibility = "sni"
		f.verdict(v.Ruling, 200)
		c.relay(f, up.conn)
	}
}

// serveInside serves requests inside a tunnel, each with a verdict of its own.
func (c *front) serveInside(ctx context.Context, f *flow, v verdict, up tunnelOrigin, e entry) {
	in := &front{s: c.s, conn: c.conn, src: c.src, live: c.live, entry: e, inside: v.Authority, first: &up}
	in.serve(ctx)
	if in.first != nil {
		in.first.conn.Close()
	}
	f.end(0, 0, c.live.reason("closed"))
}

// refuseTunnel ends a tunnel after its 200: an alert for what speaks TLS, then
// the end of the connection. No byte has gone upstream.
func (c *front) refuseTunnel(f *flow, r policy.Ruling) {
	f.verdict(r, 200)
	if r.Source == policy.SNIMismatch || r.Source == policy.ECH {
		c.write(alertUnrecognizedName)
	}
	c.linger()
}

var (
	alertUnrecognizedName = []byte{0x15, 3, 3, 0, 2, 2, 112}
	alertAccessDenied     = []byte{0x15, 3, 3, 0, 2, 2, 49}
	alertInternalError    = []byte{0x15, 3, 3, 0, 2, 2, 80}
)
