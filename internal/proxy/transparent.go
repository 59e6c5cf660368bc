package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/clienthello"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

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
