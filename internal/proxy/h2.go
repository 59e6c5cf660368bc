package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// http2 serves intercepted tunnels whose client speaks HTTP/2, by the standard
// library's server and transport: one of each for all tunnels. Verdicts,
// credentials and header rules are the same as for HTTP/1.
type http2 struct {
	s     *Server
	srv   *http.Server
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	// plain and injected requests never share a connection to an origin.
	plain, injected *http.Transport
	origins         chan struct{} // connections that were dialled for them
}

const maxStreams = 100

func newHTTP2(s *Server) *http2 {
	h := &http2{s: s, conns: make(chan net.Conn), done: make(chan struct{}), origins: make(chan struct{}, maxOrigins)}
	h.srv = &http.Server{
		Handler: h, ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: h1.MaxRequestHead,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, tunnelKey{}, tunnelOf(c))
		},
		ConnState: func(c net.Conn, st http.ConnState) {
			if st == http.StateClosed {
				close(tunnelOf(c).closed)
			}
		},
		ErrorLog: quietLog(),
	}
	h.plain, h.injected = h.transport(), h.transport()
	return h
}

// tunnelKey finds a request's tunnel in its context, addrKey a dial's verdict.
type (
	tunnelKey struct{}
	dialKey   struct{}
)

// h2tunnel is one tunnel that HTTP/2 runs in.
type h2tunnel struct {
	front  *front
	closed chan struct{}

	mu    sync.Mutex
	first *tunnelOrigin // dialled with the tunnel, used by the first request
}

// takeFirst is nil when it was taken, or is of no use any more.
func (t *h2tunnel) takeFirst() *tunnelOrigin {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.first
	t.first = nil
	if first != nil && !first.usable() {
		first.conn.Close()
		return nil
	}
	return first
}

func tunnelOf(c net.Conn) *h2tunnel {
	return c.(*tls.Conn).NetConn().(*peekedConn).h2
}

// serve hands a tunnel to the HTTP/2 server and waits for its end.
func (h *http2) serve(tc *tls.Conn, t *h2tunnel) {
	h.once.Do(func() { h.s.wg.Go(func() { h.srv.Serve(h) }) })
	select {
	case h.conns <- tc:
		<-t.closed
	case <-h.done:
		tc.Close()
	}
	if first := t.takeFirst(); first != nil {
		first.conn.Close()
	}
}

// Accept makes h the listener of its own server.
func (h *http2) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener.
func (h *http2) Close() error { return nil }

// Addr is no address of this machine.
func (h *http2) Addr() net.Addr { return &net.UnixAddr{Name: "tunnels", Net: "unix"} }

// shutdown ends the server; its connections were cut before.
func (h *http2) shutdown() {
	close(h.done)
	h.srv.Close()
	h.plain.CloseIdleConnections()
	h.injected.CloseIdleConnections()
}

// transport carries requests to origins over HTTP/2, or HTTP/1.1 where the
// origin has nothing newer. It dials only what the request's verdict vetted.
func (h *http2) transport() *http.Transport {
	t := &http.Transport{
		DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConns: 64, IdleConnTimeout: 60 * time.Second,
		ExpectContinueTimeout: 10 * time.Second, MaxResponseHeaderBytes: h1.MaxResponseHead,
		TLSClientConfig: &tls.Config{NextProtos: []string{"h2", "http/1.1"}},
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d, ok := ctx.Value(dialKey{}).(*h2exchange)
			if !ok {
				return nil, errors.New("a request without a verdict")
			}
			return d.dial(ctx)
		},
	}
	return t
}

// ServeHTTP judges one request and carries it to its origin.
func (h *http2) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := r.Context().Value(tunnelKey{}).(*h2tunnel)
	inside := t.front.inside
	path, _, _ := strings.Cut(r.RequestURI, "?")
	host, port := splitPort(r.Host, 443)
	f := h.s.newFlow(ask{host: host, port: port, method: r.Method, path: path, scheme: "https"})
	f.detail.MITM, f.detail.Visibility, f.detail.ALPN = true, "full", "h2"
	x := &h2exchange{h: h, t: t, f: f}
	if bad := sameAuthority(tunnelTLS, inside, destination{host: host, port: port}); bad != nil {
		x.refuse(w, policy.Ruling{Decision: egress.Deny, Source: bad.source, Cause: bad.cause, Hint: hintOf(bad.source)})
		return
	}
	if cause := malformedH2(r); cause != "" {
		x.refuse(w, policy.Ruling{Decision: egress.Deny, Source: policy.BadRequest, Cause: cause, Hint: hintOf(policy.BadRequest)})
		return
	}
	x.v = h.s.admit(r.Context(), f.ask)
	if !x.v.OK() {
		x.refuse(w, x.v.Ruling)
		return
	}
	f.ask.host = x.v.Host.String()
	cred, err := h.s.credentialFor(r.Context(), x.v.Authority)
	if err != nil {
		x.refuse(w, credentialRuling(x.v.Host))
		return
	}
	x.run(w, r, cred)
}

// malformedH2 says what is wrong with a request that the library lets through,
// or nothing. The path may go on in a request line of HTTP/1, where an absolute
// URL would name another host than the one that was judged.
func malformedH2(r *http.Request) string {
	if r.Method == http.MethodConnect {
		return "there is no CONNECT inside a tunnel"
	}
	if err := h1.CheckTarget(r.RequestURI); err != nil {
		return err.Error()
	}
	if !strings.HasPrefix(r.RequestURI, "/") && (r.RequestURI != "*" || r.Method != http.MethodOptions) {
		return "the request target is not a path"
	}
	return ""
}

// countedBody counts what was read of a request's body.
type countedBody struct {
	io.ReadCloser
	n atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// quietLog drops the library's own complaints about clients; the records say more.
func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }
