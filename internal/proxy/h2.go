package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/redact"
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
}

const maxStreams = 100

func newHTTP2(s *Server) *http2 {
	h := &http2{s: s, conns: make(chan net.Conn), done: make(chan struct{})}
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

func (t *h2tunnel) takeFirst() *tunnelOrigin {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.first
	t.first = nil
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

// h2exchange is one request over HTTP/2.
type h2exchange struct {
	h *http2
	t *h2tunnel
	f *flow
	v verdict

	mu  sync.Mutex
	bad *policy.Ruling // why a dial failed
}

// dial connects to the origin for the transport.
func (x *h2exchange) dial(ctx context.Context) (net.Conn, error) {
	s := x.h.s
	var conn net.Conn
	if first := x.t.takeFirst(); first != nil {
		conn = first.conn
	} else {
		v := x.v
		if s.vet(ctx, &v); !v.OK() {
			return nil, x.failed(&v.Ruling)
		}
		c, _, bad := s.dial(ctx, &v, x.f, true)
		if bad != nil {
			return nil, x.failed(bad)
		}
		conn = c
	}
	tc, err := s.upstreamTLS(ctx, conn, x.v.Host, "h2", "http/1.1")
	if err != nil {
		conn.Close()
		return nil, x.failed(tlsRuling(x.v.Authority, err))
	}
	return tc, nil
}

func (x *h2exchange) failed(r *policy.Ruling) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bad = r
	return errors.New(r.Cause)
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
	if r.Method == http.MethodConnect {
		x.refuse(w, policy.Ruling{Decision: egress.Deny, Source: policy.BadRequest, Cause: "there is no CONNECT inside a tunnel", Hint: hintOf(policy.BadRequest)})
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

func (x *h2exchange) run(w http.ResponseWriter, r *http.Request, cred *credential) {
	tr := x.h.plain
	if cred != nil {
		tr, x.f.detail.InjectedBy = x.h.injected, x.v.Host.String()
	}
	up := &countedBody{ReadCloser: r.Body}
	resp, err := tr.RoundTrip(x.outgoing(w, r, cred, up))
	if err != nil {
		x.refuse(w, x.roundTripRuling(err))
		return
	}
	defer resp.Body.Close()
	switch {
	case resp.ProtoMajor < 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		x.refuse(w, policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed,
			Cause: x.v.Authority.String() + " does not speak HTTP/2, which gRPC needs", Hint: "policy allows this host; its server must offer HTTP/2"})
		return
	case resp.StatusCode == http.StatusProxyAuthRequired || resp.StatusCode == http.StatusSwitchingProtocols:
		x.refuse(w, policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed,
			Cause: fmt.Sprintf("%s: the origin answered %d, which it may not", x.v.Authority, resp.StatusCode), Hint: "the far side misbehaves; nothing here can be changed"})
		return
	}
	x.f.verdict(x.v.Ruling, resp.StatusCode)
	if cred != nil {
		blotHeader(resp.Header, cred.forms)
	}
	down, err := relayH2(w, resp, cred)
	x.f.end(up.n.Load(), down, closeReason(err, true))
	if err != nil {
		panic(http.ErrAbortHandler) // resets the stream: a cut answer must not look whole
	}
}

// outgoing builds the request to the origin: the raw path, filtered headers,
// our credential, no trailers.
func (x *h2exchange) outgoing(w http.ResponseWriter, r *http.Request, cred *credential, body io.ReadCloser) *http.Request {
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		copyHeader(w.Header(), http.Header(h))
		w.WriteHeader(code)
		clear(w.Header())
		return nil
	}}
	ctx := httptrace.WithClientTrace(context.WithValue(r.Context(), dialKey{}, x), trace)
	host := x.v.HostHeader(443)
	out := (&http.Request{
		Method: r.Method, Host: host, Body: body, ContentLength: r.ContentLength, Header: http.Header{},
		URL: &url.URL{Scheme: "https", Host: x.v.Authority.String(), Opaque: rawTarget(host, r.RequestURI)},
	}).WithContext(ctx)
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	o := outbound{methodList: x.h.s.policy.HasMethodList(), inject: cred}
	all := fieldsOf(r.Header)
	for name, values := range r.Header {
		if keepsRequestField(name, all, o) {
			out.Header[name] = values
		}
	}
	if cred != nil {
		out.Header.Set(cred.header, cred.value)
	}
	if r.Header.Get("Te") == "trailers" {
		out.Header.Set("Te", "trailers") // trailers do pass here, and gRPC servers ask
	}
	if _, said := out.Header["User-Agent"]; !said {
		out.Header["User-Agent"] = []string{""} // none of the library's own
	}
	return out
}

// rawTarget makes the transport send the path byte for byte.
func rawTarget(host, target string) string {
	if strings.HasPrefix(target, "//") {
		return "//" + host + target
	}
	return target
}

func fieldsOf(h http.Header) h1.Fields {
	var out h1.Fields
	for name, values := range h {
		for _, v := range values {
			out = append(out, h1.Field{Name: name, Value: v})
		}
	}
	return out
}

func copyHeader(dst, src http.Header) {
	all := fieldsOf(src)
	for name, values := range src {
		if keepsResponseField(name, all) {
			dst[name] = values
		}
	}
}

// relayH2 hands an answer on, every piece as it comes, with its trailers.
func relayH2(w http.ResponseWriter, resp *http.Response, cred *credential) (int64, error) {
	copyHeader(w.Header(), resp.Header)
	if resp.ContentLength >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(resp.ContentLength))
	}
	w.WriteHeader(resp.StatusCode)
	rc := http.NewResponseController(w)
	if err := rc.Flush(); err != nil {
		return 0, err
	}
	buf := buffers.Get().(*[chunkRoom + copyBuffer + 2]byte)
	defer buffers.Put(buf)
	var body io.Reader = resp.Body
	if cred != nil {
		body = &blottedReader{rd: resp.Body, filter: redact.NewFilter(cred.forms)}
	}
	var n int64
	for {
		k, rerr := body.Read(buf[:copyBuffer])
		if k > 0 {
			m, err := w.Write(buf[:k])
			n += int64(m)
			if err != nil {
				return n, err
			}
			if err := rc.Flush(); err != nil {
				return n, err
			}
		}
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return n, rerr
		}
	}
	if cred != nil {
		blotHeader(resp.Trailer, cred.forms)
	}
	for name, values := range resp.Trailer {
		if keepsResponseField(name, nil) {
			w.Header()[http.TrailerPrefix+name] = values
		}
	}
	return n, nil
}

// roundTripRuling explains a request that got no answer.
func (x *h2exchange) roundTripRuling(err error) policy.Ruling {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bad != nil {
		return *x.bad
	}
	return policy.Ruling{Decision: egress.Deny, Source: policy.DialFailed, Cause: x.v.Authority.String() + ": " + transportCause(err),
		Hint: "policy allows this host; it did not answer properly"}
}

func transportCause(err error) string {
	if errors.Is(err, context.Canceled) {
		return "the client gave up"
	}
	if isTimeout(err) {
		return noAnswer
	}
	return "the origin closed the connection without an answer"
}

// refuse records and answers a refusal.
func (x *h2exchange) refuse(w http.ResponseWriter, r policy.Ruling) {
	status := dialStatus(&r)
	x.f.verdict(r, status)
	fields, body := refusalParts(x.f, r, status)
	clear(w.Header())
	for _, f := range fields {
		w.Header().Set(f.Name, f.Value)
	}
	w.WriteHeader(status)
	if x.f.ask.method != http.MethodHead {
		w.Write(body)
	}
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
