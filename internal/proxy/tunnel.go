package proxy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/clienthello"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
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

// firstBytes is what a tunnel begins with.
type firstBytes struct {
	http bool
	sni  string
	alpn string
}

// peek reads a tunnel's first bytes, without consuming them, until it is clear
// what they are and whether they may pass.
func (c *front) peek(a egress.Authority) (firstBytes, *policy.Ruling) {
	c.conn.SetReadDeadline(time.Now().Add(peekTimeout))
	defer c.conn.SetReadDeadline(time.Time{})
	for {
		b := c.src.Buffered()
		if len(b) > 0 && b[0] == 0x16 {
			hello, err := clienthello.Parse(b)
			if !errors.Is(err, clienthello.ErrShort) {
				return judgeHello(hello, err, a.Host)
			}
		} else if len(b) > 0 {
			switch beginsHTTP(b) {
			case yes:
				if a.Port != 443 {
					return firstBytes{http: true}, nil
				}
				return firstBytes{}, notTLS("plain HTTP in a tunnel to port 443")
			case no:
				return firstBytes{}, notTLS("the first bytes are neither TLS nor HTTP")
			}
		}
		if err := c.src.Fill(clienthello.MaxSize); err != nil {
			return firstBytes{}, notTLS(silence(len(b), err))
		}
	}
}

func silence(n int, err error) string {
	switch {
	case n == 0 && isTimeout(err):
		return "the client sent nothing; a protocol in which the server speaks first needs an entry with +tcp"
	case n == 0:
		return "the client left without sending anything"
	}
	return "the first bytes are an incomplete message"
}

func notTLS(cause string) *policy.Ruling {
	return &policy.Ruling{Decision: egress.Deny, Source: policy.NotTLS, Cause: cause,
		Hint: `a tunnel carries TLS unless the allow entry says "host:port+tcp"`}
}

// judgeHello holds a ClientHello to the host that the tunnel is for.
func judgeHello(h clienthello.Hello, err error, host egress.Host) (firstBytes, *policy.Ruling) {
	mismatch := func(cause string) (firstBytes, *policy.Ruling) {
		return firstBytes{}, &policy.Ruling{Decision: egress.Deny, Source: policy.SNIMismatch, Cause: cause,
			Hint: "open the tunnel to the host that the TLS handshake names"}
	}
	_, literal := host.Addr()
	switch {
	case errors.Is(err, clienthello.ErrBadSNI):
		return mismatch("the server name extension of the TLS handshake is broken")
	case err != nil:
		return firstBytes{}, notTLS("the TLS handshake does not parse")
	case len(h.ServerNames) > 1:
		return mismatch("the TLS handshake names more than one server")
	case len(h.ServerNames) == 0 && !literal:
		return mismatch("the TLS handshake names no server; the tunnel is for " + host.String())
	case len(h.ServerNames) == 1 && !namesHost(h.ServerNames[0], host):
		return mismatch("the TLS handshake names " + printable(h.ServerNames[0]) + ", the tunnel is for " + host.String())
	case h.ECH:
		return firstBytes{}, &policy.Ruling{Decision: egress.Deny, Source: policy.ECH,
			Cause: "the TLS handshake may hide its real server name (encrypted ClientHello)",
			Hint:  "switch ECH off in the client, or let the author intercept this host"}
	}
	out := firstBytes{sni: host.String()}
	if len(h.ALPN) > 0 {
		out.alpn = h.ALPN[0]
	}
	return out, nil
}

func namesHost(sni string, host egress.Host) bool {
	h, err := egress.ParseHost(sni)
	if err != nil {
		h, err = egress.ParseHost("[" + sni + "]")
	}
	return err == nil && h == host
}

type answer int

const (
	no answer = iota
	yes
	unsure
)

// beginsHTTP tells whether bytes begin an HTTP/1 request: a method, a blank,
// and a path, an absolute URL or an asterisk.
func beginsHTTP(b []byte) answer {
	i := 0
	for i < len(b) && i <= 32 && (b[i] >= 'A' && b[i] <= 'Z' || b[i] == '-') {
		i++
	}
	switch {
	case i == len(b) && i <= 32:
		return unsure
	case i == 0 || i > 32 || b[i] != ' ':
		return no
	case i+1 == len(b):
		return unsure
	}
	rest := b[i+1:]
	if rest[0] == '/' || rest[0] == '*' {
		return yes
	}
	const scheme = "http://"
	n := min(len(rest), len(scheme))
	if !bytes.EqualFold(rest[:n], []byte(scheme[:n])) {
		return no
	}
	if n < len(scheme) {
		return unsure
	}
	return yes
}

// transparentTLS serves a connection that was meant for port 443: its
// ClientHello names the host, and from there on it is a CONNECT.
func (c *front) transparentTLS(ctx context.Context) {
	c.conn.SetReadDeadline(time.Now().Add(peekTimeout))
	hello, err := c.hello()
	f := c.s.newFlow(ask{port: 443, method: "CONNECT"})
	if err != nil || len(hello.ServerNames) != 1 {
		f.verdict(policy.Ruling{Decision: egress.Deny, Source: policy.SNIMismatch, Cause: "no TLS handshake that names one server",
			Hint: "on port 443 the server name of the handshake says where a connection goes; other clients use the proxy port"}, 0)
		c.write(alertUnrecognizedName)
		return
	}
	f.ask.host = hello.ServerNames[0]
	if !c.s.flows.openTunnel() {
		f.verdict(policy.Ruling{Decision: egress.Deny, Source: policy.Limit, Cause: "too many tunnels from this sandbox at once"}, 0)
		c.write(alertInternalError)
		return
	}
	defer c.s.flows.closeTunnel()
	c.conn.SetReadDeadline(time.Time{})
	v := c.s.decide(ctx, f.ask)
	if !v.OK() {
		f.verdict(v.Ruling, 0)
		c.write(alertAccessDenied)
		c.linger()
		return
	}
	c.transparentTunnel(ctx, f, v, hello)
}

func (c *front) transparentTunnel(ctx context.Context, f *flow, v verdict, hello clienthello.Hello) {
	f.ask.host = v.Host.String()
	first, bad := judgeHello(hello, nil, v.Host)
	if bad != nil && !v.Raw {
		c.refuseTunnel(f, *bad)
		return
	}
	conn, addr, bad := c.s.dial(ctx, &v, f, true)
	if bad != nil {
		f.verdict(*bad, 0)
		c.write(alertInternalError)
		c.linger()
		return
	}
	c.live.upstream(conn)
	c.live.dependOn(v)
	if v.Raw {
		c.carryRaw(f, v, conn)
		return
	}
	c.carry(ctx, f, v, tunnelOrigin{conn, addr}, first)
}

// transparentRaw serves a connection that was meant for one host and port. A
// refusal can only close it, and is recorded.
func (c *front) transparentRaw(ctx context.Context, to egress.Authority) {
	f := c.s.newFlow(ask{host: to.Host.String(), port: int(to.Port), method: "CONNECT"})
	if !c.s.flows.openTunnel() {
		f.verdict(policy.Ruling{Decision: egress.Deny, Source: policy.Limit, Cause: "too many tunnels from this sandbox at once"}, 0)
		return
	}
	defer c.s.flows.closeTunnel()
	v := c.s.decide(ctx, f.ask)
	if v.OK() && !v.Raw {
		v.Ruling = *notTLS("the port is open for raw tunnels only, and no entry with +tcp covers " + to.String())
	}
	if !v.OK() {
		f.verdict(v.Ruling, 0)
		return
	}
	conn, _, bad := c.s.dial(ctx, &v, f, true)
	if bad != nil {
		f.verdict(*bad, 0)
		return
	}
	c.live.upstream(conn)
	c.live.dependOn(v)
	c.carryRaw(f, v, conn)
}

// hello reads a whole ClientHello without consuming it.
func (c *front) hello() (clienthello.Hello, error) {
	for {
		h, err := clienthello.Parse(c.src.Buffered())
		if !errors.Is(err, clienthello.ErrShort) {
			return h, err
		}
		if err := c.src.Fill(clienthello.MaxSize); err != nil {
			return h, err
		}
	}
}
