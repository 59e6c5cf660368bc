package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// tlsOrigin is a real HTTPS server with a certificate for api.test.
func tlsOrigin(t *testing.T, h http.Handler, protocols ...string) (addr string) {
	t.Helper()
	upstreamCA.once.Do(func() { upstreamCA.ca = newCA(t, "upstream test CA") })
	leaf, err := upstreamCA.ca.leaf("api.test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ErrorLog: quietLog(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{*leaf}, NextProtos: protocols}}
	done := make(chan struct{})
	go func() { defer close(done); srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}

// intercepting is a bench that intercepts api.test, with an injection rule if asked.
func intercepting(t *testing.T, origin string, spec types.RunPolicySpec, inject bool) *bench {
	t.Helper()
	in := setup{config: egress.Config{Policy: spec, MITMHosts: []string{"api.test"}}, needsCA: true,
		dns: map[string][][]string{"api.test": {{"93.184.216.34"}}}}
	if inject {
		in.config.Injection = []egress.InjectionGrant{{GrantID: uuid.New(), InjectionRule: egress.InjectionRule{Host: "api.test", Header: "X-Api-Key"}}}
	}
	in.tweak = func(o *Options) {
		o.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", origin)
		}
	}
	return newBench(t, in)
}

// browser is an ordinary client that trusts the run's CA and uses the proxy.
func (b *bench) browser(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: b.addr}),
		TLSClientConfig: &tls.Config{RootCAs: b.runCA.pool()}, ForceAttemptHTTP2: h2, DisableCompression: true,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

var bothVersions = map[string]bool{"HTTP1": false, "HTTP2": true}

func TestInterceptedRequest(t *testing.T) {
	origin := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Wardyn-Egress", "forged")
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header()["Date"] = nil
		if key := r.Header.Get("X-Api-Key"); key != "Bearer test-secret-0123456789" { // E97
			t.Errorf("origin saw key %q", key)
		}
		w.Header().Set("X-Saw-Auth", r.Header.Get("Authorization")+r.Header.Get("Cookie"))
		w.Header().Set("X-Saw-Agent", r.Header.Get("User-Agent")+r.Header.Get("Accept-Encoding")+r.Header.Get("Via"))
		fmt.Fprintf(w, "%s %s %s %s", r.Proto, r.Method, r.RequestURI, body)
	}), "h2", "http/1.1")
	for name, h2 := range bothVersions {
		t.Run(name, func(t *testing.T) {
			b := intercepting(t, origin, allow("api.test"), true)
			c := b.browser(t, h2)
			req, _ := http.NewRequest("POST", "https://api.test/@scope%2fpkg/a%2Fb?x=%2F&y", strings.NewReader("hello"))
			req.Header["Authorization"] = []string{"Bearer mine"}
			req.Header["X-Api-Key"] = []string{"mine"}
			req.Header["Cookie"] = []string{"a=b"}
			req.Header["User-Agent"] = []string{""}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			proto := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[h2]
			if want := proto + " POST /@scope%2fpkg/a%2Fb?x=%2F&y hello"; string(body) != want { // E91
				t.Errorf("origin saw %q, want %q", body, want)
			}
			if resp.Proto != proto {
				t.Errorf("the client got %s", resp.Proto)
			}
			if resp.Header.Get("X-Saw-Auth") != "" {
				t.Errorf("origin saw other credentials %q", resp.Header.Get("X-Saw-Auth"))
			}
			if resp.Header.Get("X-Saw-Agent") != "" || resp.Header.Get("X-Wardyn-Egress") != "" || resp.Header.Get("Proxy-Authenticate") != "" || resp.Header["Date"] != nil {
				t.Errorf("headers %v", resp.Header) // E86
			}
			if !eventually(patience, func() bool { return len(b.records.verdicts()) == 2 }) {
				t.Fatalf("records %+v", b.records.verdicts())
			}
			inner := b.records.verdicts()[1]
			if inner.Request.Path != "/@scope%2fpkg/a%2Fb" || inner.Flow.InjectedBy != "api.test" || inner.Flow.Dialed != "93.184.216.34" || !inner.Flow.MITM || inner.Flow.Visibility != "full" || inner.Flow.Status != 200 {
				t.Errorf("record %+v %+v", inner, inner.Flow)
			}
		})
	}
}

func TestInterceptedMethodListAndMismatch(t *testing.T) {
	var hits atomic.Int32
	origin := tlsOrigin(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }), "h2", "http/1.1")
	for name, h2 := range bothVersions {
		t.Run(name, func(t *testing.T) {
			spec := types.RunPolicySpec{AllowedDomains: []string{"api.test", "other.test"}, AllowedMethods: []string{"CONNECT", "GET"}}
			b := intercepting(t, origin, spec, false)
			c := b.browser(t, h2)
			for _, tt := range []struct {
				method, host string
				status       int
				source       string
			}{
				{"DELETE", "", 403, "policy:method"}, // E95
				{"GET", "other.test", 421, "builtin:authority-mismatch"},
				{"GET", "api.test:8443", 421, "builtin:authority-mismatch"},
				{"GET", "a..b", 400, "builtin:bad-host"},
			} {
				req, _ := http.NewRequest(tt.method, "https://api.test/", nil)
				if tt.host != "" {
					req.Host = tt.host
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Fatalf("%+v: %v", tt, err)
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.source) { // E47
					t.Errorf("%+v: %s %q", tt, resp.Status, body)
				}
			}
			if hits.Load() != 0 {
				t.Errorf("%d requests reached the origin", hits.Load())
			}
		})
	}
}

// TestGRPCShape: a stream in both directions, unbuffered, with trailers at its end.
func TestGRPCShape(t *testing.T) {
	origin := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Te") != "trailers" {
			t.Errorf("TE: %q", r.Header.Get("Te"))
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		buf := make([]byte, 16)
		for {
			n, err := r.Body.Read(buf)
			if n > 0 {
				w.Write(bytes.ToUpper(buf[:n]))
				w.(http.Flusher).Flush()
			}
			if err != nil {
				break
			}
		}
		w.Header().Set("Grpc-Status", "0")
	}), "h2")
	b := intercepting(t, origin, allow("api.test"), false)
	pr, pw := io.Pipe()
	req, _ := http.NewRequest("POST", "https://api.test/svc/Method", pr)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := b.browser(t, true).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, 3)
	for _, msg := range []string{"one", "two"} {
		io.WriteString(pw, msg)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != strings.ToUpper(msg) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	pw.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if resp.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("trailers %v", resp.Trailer)
	}
}

func TestGRPCNeedsHTTP2AtTheOrigin(t *testing.T) {
	origin := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }), "http/1.1")
	b := intercepting(t, origin, allow("api.test"), false)
	c := b.browser(t, true)
	resp, err := c.Get("https://api.test/")
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != "HTTP/1.1" || resp.ProtoMajor != 2 {
		t.Errorf("no bridge from HTTP/2 to HTTP/1: %s %q", resp.Proto, body)
	}
	req, _ := http.NewRequest("POST", "https://api.test/", strings.NewReader("x"))
	req.Header.Set("Content-Type", "application/grpc+proto")
	resp, err = c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 502 || !strings.Contains(string(body), "HTTP/2") {
		t.Errorf("%s %q", resp.Status, body)
	}
}

func TestE80WebSocketThroughInterception(t *testing.T) {
	origin := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "Bearer test-secret-0123456789" {
			t.Error("the handshake carries no credential")
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhi ")
		io.Copy(conn, rw)
	}), "http/1.1")
	b := intercepting(t, origin, allow("api.test"), true)
	c := b.dial(t)
	c.send(t, "CONNECT api.test:443 HTTP/1.1\r\n\r\n")
	c.answer(t, "CONNECT")
	tc := tls.Client(bufferedConn{c.Conn, c.br}, &tls.Config{ServerName: "api.test", RootCAs: b.runCA.pool()})
	fmt.Fprintf(tc, "GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	br := bufio.NewReader(tc)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	io.WriteString(tc, "there")
	got := make([]byte, 8)
	if _, err := io.ReadFull(br, got); err != nil || string(got) != "hi there" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestE101EchoedCredentialIsBlotted: an origin that shows what it was sent.
func TestE101EchoedCredentialIsBlotted(t *testing.T) {
	const secret = "test-secret-0123456789"
	origin := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		if !strings.Contains(key, secret) || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("origin saw %v", r.Header)
		}
		w.Header().Set("X-Echo", key)
		w.Header().Set("Trailer", "X-Last")
		if r.URL.Path == "/counted" {
			w.Header().Set("Content-Length", fmt.Sprint(len(key)*1000))
		}
		for range 1000 {
			io.WriteString(w, key[:10])
			if r.URL.Path == "/pieces" {
				w.(http.Flusher).Flush()
			}
			io.WriteString(w, key[10:])
		}
		w.Header().Set("X-Last", key)
	}), "h2", "http/1.1")
	for name, h2 := range bothVersions {
		for _, path := range []string{"/counted", "/pieces"} {
			t.Run(name+path, func(t *testing.T) {
				b := intercepting(t, origin, allow("api.test"), true)
				req, _ := http.NewRequest("GET", "https://api.test"+path, nil)
				req.Header.Set("Accept-Encoding", "gzip")
				resp, err := b.browser(t, h2).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				want := 1000 * len("Bearer "+secret)
				if path == "/pieces" { // no length was announced, so masks do not tell the secret's
					want = 1000 * 8
				}
				if err != nil || len(body) != want || strings.Trim(string(body), "*") != "" {
					t.Errorf("%d bytes, %v, such as %.60q", len(body), err, body)
				}
				if h := fmt.Sprint(resp.Header, resp.Trailer); strings.Contains(h, secret) || !strings.Contains(h, "***") {
					t.Errorf("headers %s", h)
				}
			})
		}
	}
}
