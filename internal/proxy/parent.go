package proxy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/origin"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// parentTimeout is how long an upstream proxy may take to open a tunnel.
const parentTimeout = 15 * time.Second

// parent is the upstream (corporate) proxy that requests are chained through.
type parent struct {
	authority egress.Authority
	auth      string // value of Proxy-Authorization, or empty
	bypass    egress.List
}

// parseParent reads "http://[user:pass@]host[:port]". Errors never hold the
// URL, as it may hold a password. secrets are to be masked.
func parseParent(raw string, bypass []string) (p *parent, secrets []string, err error) {
	if raw == "" {
		return nil, nil, nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, nil, errors.New("upstream_proxy_url does not parse")
	case u.Scheme != "http":
		return nil, nil, errors.New("upstream_proxy_url: the scheme is http and nothing else, as the hop is in the clear anyway")
	case u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, nil, errors.New("upstream_proxy_url: want http://[user:password@]host[:port]")
	}
	p = &parent{}
	if p.authority, err = egress.ParseAuthority(u.Host, 80); err != nil {
		return nil, nil, errors.New("upstream_proxy_url: the host or port is malformed")
	}
	if p.bypass, err = egress.ParseList(bypass, egress.ParseCeiling); err != nil {
		return nil, nil, fmt.Errorf("proxy_bypass: %w", err)
	}
	if u.User != nil {
		pass, _ := u.User.Password()
		plain := u.User.Username() + ":" + pass
		coded := base64.StdEncoding.EncodeToString([]byte(plain))
		p.auth = "Basic " + coded
		secrets = []string{pass, plain, coded, u.User.String()}
	}
	return p, secrets, nil
}

// through reports whether requests for a go to the upstream proxy.
func (s *Server) through(a egress.Authority) bool {
	if s.parent == nil || s.guard.Excepted(a.Host) {
		return false
	}
	_, direct := s.parent.bypass.Find(a.Host, a.Port)
	return !direct
}

// vetByName judges a name that the upstream proxy will resolve: the address
// guard cannot see its addresses, so names that only mean something inside are
// refused.
func vetByName(h egress.Host) *policy.Ruling {
	n := h.Name()
	if n == "" || strings.Contains(n, ".") && !strings.HasSuffix(n, ".local") && !strings.HasSuffix(n, ".internal") {
		return nil
	}
	return &policy.Ruling{Decision: egress.Deny, Source: policy.PrivateIP, Cause: n + " is a name of the inside network",
		Hint: "behind an upstream proxy such names are refused; the operator can name it in private_hosts"}
}

// dialParent connects to the upstream proxy, which is the operator's choice and
// not subject to the address guard.
func (s *Server) dialParent(ctx context.Context) (net.Conn, netip.AddrPort, error) {
	addrs := []netip.Addr{}
	if a, ok := s.parent.authority.Host.Addr(); ok {
		addrs = append(addrs, a)
	} else {
		found, err := s.lookup(ctx, s.parent.authority.Host)
		if err != nil {
			return nil, netip.AddrPort{}, errors.New("its name does not resolve")
		}
		addrs = found
	}
	dial := s.o.Dial
	if dial == nil {
		d := net.Dialer{KeepAliveConfig: keepAlive}
		dial = func(ctx context.Context, ap netip.AddrPort) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", ap.String())
		}
	}
	return origin.DialAny(ctx, dial, addrs, s.parent.authority.Port)
}

// openParent connects to the upstream proxy, and with tunnel set opens a tunnel
// to a through it.
func (s *Server) openParent(ctx context.Context, a egress.Authority, tunnel bool) (net.Conn, netip.AddrPort, *policy.Ruling) {
	fail := func(cause string) *policy.Ruling {
		return &policy.Ruling{Decision: egress.Deny, Source: policy.UpstreamProxy, Cause: a.String() + ": the upstream proxy: " + cause,
			Hint: "policy allows this host; the operator's upstream proxy did not connect to it"}
	}
	conn, addr, err := s.dialParent(ctx)
	if err != nil {
		return nil, addr, fail(dialCause(err))
	}
	if !tunnel {
		return conn, addr, nil
	}
	rest, err := s.parent.connect(conn, a)
	if err != nil {
		conn.Close()
		if isTimeout(err) {
			return nil, addr, fail(noAnswer)
		}
		return nil, addr, fail(err.Error())
	}
	if len(rest) > 0 {
		return &prefixedConn{Conn: conn, rest: rest}, addr, nil
	}
	return conn, addr, nil
}

// connect asks for a tunnel and returns the bytes that came right behind the answer.
func (p *parent) connect(conn net.Conn, a egress.Authority) ([]byte, error) {
	conn.SetDeadline(time.Now().Add(parentTimeout))
	defer conn.SetDeadline(time.Time{})
	head := "CONNECT " + a.String() + " HTTP/1.1\r\nHost: " + a.String() + "\r\n"
	if p.auth != "" {
		head += "Proxy-Authorization: " + p.auth + "\r\n"
	}
	if _, err := conn.Write([]byte(head + "\r\n")); err != nil {
		return nil, errors.New("it closed the connection")
	}
	src := h1.NewSource(conn)
	for {
		resp, err := h1.ReadResponse(src, "CONNECT")
		switch {
		case isTimeout(err):
			return nil, err
		case err != nil:
			return nil, errors.New("its answer is not usable")
		case resp.Status < 200:
			continue
		case resp.Status == 407:
			return nil, errors.New("it wants other credentials (407)")
		case resp.Status > 299:
			return nil, fmt.Errorf("it answered %d", resp.Status)
		}
		return src.Buffered(), nil
	}
}

// prefixedConn replays bytes that were read too early.
type prefixedConn struct {
	net.Conn
	rest []byte
}

func (p *prefixedConn) Read(b []byte) (int, error) {
	if len(p.rest) > 0 {
		n := copy(b, p.rest)
		p.rest = p.rest[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// CloseWrite passes half-close through the wrapper.
func (p *prefixedConn) CloseWrite() error {
	if hc, ok := p.Conn.(halfCloser); ok {
		return hc.CloseWrite()
	}
	return nil
}

// announceParent writes the start record that says how requests leave.
func (s *Server) announceParent() {
	if s.parent == nil {
		return
	}
	f := s.newFlow(ask{host: s.parent.authority.Host.String(), port: int(s.parent.authority.Port), method: "CONNECT"})
	f.verdict(policy.Ruling{Decision: egress.Allow, Source: policy.UpstreamProxy, Cause: "requests leave through the operator's upstream proxy"}, 0)
}
