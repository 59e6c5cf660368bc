package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/mitm"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// tlsTimeout bounds a handshake on either side.
const tlsTimeout = 15 * time.Second

// modelHosts are intercepted when the policy wants to look into model traffic.
var modelHosts = []string{"api.anthropic.com", "api.openai.com"}

// interception is what the proxy needs to end TLS in the middle.
type interception struct {
	minter *mitm.Minter
	hosts  map[egress.Host]bool
	server *tls.Config // towards the sandbox: one for all tunnels, so tickets work
	client *tls.Config // towards origins; cloned for each name
}

// newInterception reads CA, hosts and roots. Without a CA nothing is
// intercepted, and a rule that needs it is an error.
func newInterception(o Options) (*interception, error) {
	roots := o.Roots
	if roots == nil && o.Node.CARoots != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(o.Node.CARoots)) {
			return nil, errors.New("ca_roots holds no certificate")
		}
	}
	in := &interception{hosts: map[egress.Host]bool{}, client: &tls.Config{
		RootCAs: roots, MinVersion: tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(256),
	}}
	hosts := append([]string(nil), o.Config.MITMHosts...)
	if o.Config.MITMLLM {
		hosts = append(hosts, modelHosts...)
	}
	for _, g := range o.Config.Injection {
		hosts = append(hosts, g.Host)
	}
	if len(hosts) == 0 {
		return in, nil
	}
	for _, name := range hosts {
		h, err := egress.ParseHost(name)
		if err != nil {
			return nil, fmt.Errorf("mitm_hosts: %w", err)
		}
		in.hosts[h] = true
	}
	minter, err := mitm.New(o.Config.MITMCACertPEM, o.Config.MITMCAKeyPEM)
	if err != nil {
		return nil, fmt.Errorf("interception of %s: %w", hosts[0], err)
	}
	in.minter = minter
	in.server = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			inner, ok := h.Conn.(*peekedConn)
			if !ok {
				return nil, errors.New("not a tunnel")
			}
			return minter.Leaf(inner.host)
		},
	}
	return in, nil
}

// intercepts reports whether tunnels to the host are opened up.
func (s *Server) intercepts(h egress.Host) bool { return s.tls.hosts[h] }

// peekedConn gives TLS the bytes that were looked at before.
type peekedConn struct {
	net.Conn
	src  *h1.Source
	host egress.Host
	h2   *h2tunnel
}

func (p *peekedConn) Read(b []byte) (int, error) { return p.src.Read(b) }

// CloseWrite passes half-close through the wrapper.
func (p *peekedConn) CloseWrite() error {
	if hc, ok := p.Conn.(halfCloser); ok {
		return hc.CloseWrite()
	}
	return nil
}

// intercept ends the sandbox's TLS here and serves the requests inside.
func (c *front) intercept(ctx context.Context, f *flow, v verdict, up tunnelOrigin) {
	pc := &peekedConn{Conn: c.conn, src: c.src, host: v.Host}
	tc := tls.Server(pc, c.s.tls.server)
	hctx, cancel := context.WithTimeout(ctx, tlsTimeout)
	err := tc.HandshakeContext(hctx)
	cancel()
	if err != nil {
		up.conn.Close()
		f.end(0, 0, "the client refused the run's certificate: "+handshakeCause(err))
		c.linger()
		return
	}
	in := &front{s: c.s, conn: tc, src: h1.NewSource(tc), live: c.live, entry: tunnelTLS, inside: v.Authority, first: &up}
	if tc.ConnectionState().NegotiatedProtocol == "h2" {
		pc.h2 = &h2tunnel{front: in, closed: make(chan struct{}), first: &up}
		c.s.h2.serve(tc, pc.h2)
	} else {
		in.serve(ctx)
		if in.first != nil {
			in.first.conn.Close()
		}
	}
	tc.Close()
	f.end(0, 0, c.live.reason("closed"))
}

// handshakeCause names a failed handshake with the sandbox; a client that pins
// certificates shows up here.
func handshakeCause(err error) string {
	var ae tls.AlertError
	if errors.As(err, &ae) {
		return ae.Error()
	}
	if isTimeout(err) {
		return "it did not finish the handshake"
	}
	return "the handshake failed"
}

// upstreamTLS opens TLS to an origin, offering protocols, and verifies it for the host.
func (s *Server) upstreamTLS(ctx context.Context, conn net.Conn, h egress.Host, protocols ...string) (*tls.Conn, error) {
	cfg := s.tls.client.Clone()
	cfg.NextProtos = protocols
	cfg.ServerName = h.Name()
	if a, ok := h.Addr(); ok {
		cfg.ServerName = a.String()
	}
	ctx, cancel := context.WithTimeout(ctx, tlsTimeout)
	defer cancel()
	tc := tls.Client(conn, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return tc, nil
}
