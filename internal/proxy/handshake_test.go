package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/origin"
)

func TestUpstreamCertificateIsVerified(t *testing.T) {
	stranger := newCA(t, "stranger")
	leaf, err := stranger.leaf("api.test")
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*leaf}, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ErrorLog: quietLog(), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request reached an origin that nobody vouches for")
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	for name, h2 := range bothVersions {
		t.Run(name, func(t *testing.T) {
			b := intercepting(t, l.Addr().String(), allow("api.test"), true)
			resp, err := b.browser(t, h2).Get("https://api.test/")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != 502 || !strings.Contains(string(body), "builtin:upstream-tls") || strings.Contains(string(body), "127.0.0.1") {
				t.Errorf("%s %q", resp.Status, body)
			}
		})
	}
}

// TestE60PinningClientLeavesARecord: a client that refuses the run's CA.
func TestE60PinningClientLeavesARecord(t *testing.T) {
	origin := tlsOrigin(t, http.NotFoundHandler(), "http/1.1")
	b := intercepting(t, origin, allow("api.test"), false)
	c := b.browser(t, false)
	c.Transport.(*http.Transport).TLSClientConfig.RootCAs = newCA(t, "pinned").pool()
	if _, err := c.Get("https://api.test/"); err == nil {
		t.Fatal("the client trusts the run's CA")
	}
	if !eventually(patience, func() bool { return len(b.records.ends()) == 1 }) {
		t.Fatal("no end record")
	}
	if why := b.records.ends()[0].Flow.Close; !strings.Contains(why, "refused the run's certificate") {
		t.Errorf("close reason %q", why)
	}
}

// TestE61HandshakeThatTheOriginEnds: the refusal says what happened, and nothing
// of the addresses at both ends.
func TestE61HandshakeThatTheOriginEnds(t *testing.T) {
	for end, cause := range map[string]string{"reset": "TLS to api.test:443", "alert": "handshake failure"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Read(make([]byte, 1))
				if end == "alert" {
					c.Write([]byte{0x15, 3, 3, 0, 2, 2, 40})
				}
				c.Close() // over unread bytes
			}
		}()
		for name, h2 := range bothVersions {
			t.Run(end+" "+name, func(t *testing.T) {
				b := intercepting(t, l.Addr().String(), allow("api.test"), true)
				resp, err := b.browser(t, h2).Get("https://api.test/")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != 502 || !strings.Contains(string(body), "builtin:upstream-tls") || !strings.Contains(string(body), cause) || strings.Contains(string(body), "127.0.0.1") {
					t.Errorf("%s %s", resp.Status, body)
				}
			})
		}
	}
}

// TestTunnelOutlivesItsFirstConnection: an origin does not wait for ever for the
// first request of a tunnel, and a client that opened it early loses nothing.
func TestTunnelOutlivesItsFirstConnection(t *testing.T) {
	secure := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }), "h2", "http/1.1")
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }))
	t.Cleanup(plain.Close)
	for name, protocol := range map[string]string{"HTTP1": "http/1.1", "HTTP2": "h2", "plain": ""} {
		t.Run(name, func(t *testing.T) {
			b := intercepting(t, secure, allow("api.test"), false)
			var first atomic.Pointer[net.TCPConn]
			b.srv.o.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
				addr := secure
				if protocol == "" {
					addr = plain.Listener.Addr().String()
				}
				if first.Load() == nil {
					l, err := net.Listen("tcp", "127.0.0.1:0")
					if err != nil {
						return nil, err
					}
					defer l.Close() // which resets what nobody accepted
					addr = l.Addr().String()
				}
				c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
				if err == nil {
					first.CompareAndSwap(nil, c.(*net.TCPConn))
				}
				return c, err
			}
			c := b.dial(t)
			target := map[bool]string{true: "api.test:80", false: "api.test:443"}[protocol == ""]
			c.send(t, "CONNECT "+target+" HTTP/1.1\r\n\r\n")
			c.answer(t, "CONNECT")
			if !eventually(patience, func() bool { return !origin.Quiet(first.Load()) }) {
				t.Fatal("the first connection stays")
			}
			tr := &http.Transport{Protocols: new(http.Protocols)}
			tr.Protocols.SetHTTP1(protocol != "h2")
			tr.Protocols.SetHTTP2(protocol == "h2")
			tunnel := bufferedConn{c.Conn, c.br}
			tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return tunnel, nil }
			tr.DialTLSContext = func(context.Context, string, string) (net.Conn, error) {
				return tls.Client(tunnel, &tls.Config{ServerName: "api.test", RootCAs: b.runCA.pool(), NextProtos: []string{protocol}}), nil
			}
			defer tr.CloseIdleConnections()
			scheme := map[bool]string{true: "http", false: "https"}[protocol == ""]
			resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get(scheme + "://api.test/")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, _ := io.ReadAll(resp.Body); string(body) != "here" {
				t.Errorf("%s %s", resp.Status, body)
			}
		})
	}
}

func TestSessionsAreResumed(t *testing.T) {
	origin := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.TLS.DidResume) }), "http/1.1")
	b := intercepting(t, origin, allow("api.test"), false)
	cache := tls.NewLRUClientSessionCache(8)
	resumed, upstream := 0, 0
	for range 4 {
		c := b.browser(t, false)
		tr := c.Transport.(*http.Transport)
		tr.TLSClientConfig.ClientSessionCache = cache
		resp, err := c.Get("https://api.test/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		tr.CloseIdleConnections()
		b.srv.pool.Prune(time.Now().Add(time.Hour)) // a fresh connection to the origin each time
		if resp.TLS.DidResume {
			resumed++
		}
		if string(body) == "true" {
			upstream++
		}
	}
	if resumed < 2 || upstream < 2 {
		t.Errorf("resumed towards the client %d, towards the origin %d of 4", resumed, upstream)
	}
}
