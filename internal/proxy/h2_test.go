package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
)

// rawH2 sends one request over HTTP/2 to api.test as it is given, which no
// library would, and returns status and body of the answer.
func (b *bench) rawH2(t *testing.T, pseudo ...string) (status, body string) {
	t.Helper()
	c := b.dial(t)
	c.send(t, "CONNECT api.test:443 HTTP/1.1\r\n\r\n")
	c.answer(t, "CONNECT")
	tc := tls.Client(bufferedConn{c.Conn, c.br}, &tls.Config{ServerName: "api.test", RootCAs: b.runCA.pool(), NextProtos: []string{"h2"}})
	io.WriteString(tc, wire.ClientPreface)
	fr := wire.NewFramer(tc, tc)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	fr.WriteSettings()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(pseudo); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: pseudo[i], Value: pseudo[i+1]})
	}
	fr.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return status, err.Error()
		}
		switch f := f.(type) {
		case *wire.MetaHeadersFrame:
			status = f.PseudoValue("status")
		case *wire.DataFrame:
			body += string(f.Data())
		case *wire.RSTStreamFrame:
			return "reset", body
		}
		if f.Header().StreamID == 1 && f.Header().Flags.Has(wire.FlagDataEndStream) {
			return status, body
		}
	}
}

// TestG15TargetOfHTTP2: what stands in ":path" may go on in a request line of
// HTTP/1, so it is held to the same rules; an absolute URL in it would name a
// host that nobody judged.
func TestG15TargetOfHTTP2(t *testing.T) {
	for name, protocols := range map[string][]string{"HTTP1 origin": {"http/1.1"}, "HTTP2 origin": {"h2"}} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Value
			seen.Store("nothing")
			origin := tlsOrigin(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.Host + " " + r.RequestURI) }), protocols...)
			b := intercepting(t, origin, allow("api.test"), true)
			for _, path := range []string{"https://evil.test/x", "http://evil.test/", "https://api.test/x", "/x HTTP/1.0", "/\x80", "evil.test/x", "*"} {
				status, body := b.rawH2(t, ":method", "GET", ":scheme", "https", ":authority", "api.test", ":path", path)
				if status != "400" && status != "reset" || status == "400" && !strings.Contains(body, policy.BadRequest) && body != "" {
					t.Errorf("%q: %s %s", path, status, body)
				}
				if got := seen.Load(); got != "nothing" {
					t.Fatalf("%q: the origin saw %q", path, got)
				}
			}
			if status, body := b.rawH2(t, ":method", "OPTIONS", ":scheme", "https", ":authority", "api.test", ":path", "*"); status != "200" {
				t.Errorf("OPTIONS *: %s %s", status, body)
			}
		})
	}
}

// endlessHints answers with early hints for as long as somebody waits.
func endlessHints(w http.ResponseWriter, r *http.Request) {
	for i := range 8 {
		w.Header().Set(fmt.Sprintf("X-Hint-%d", i), "x")
	}
	for i := 0; r.Context().Err() == nil && i < 4*h1.MaxInterim; i++ {
		w.WriteHeader(http.StatusEarlyHints)
	}
	<-r.Context().Done()
}

// TestHintsForARequestThatIsGone: the origin goes on with interim answers while
// the client gives its request up, when nobody may touch the answer any more.
func TestHintsForARequestThatIsGone(t *testing.T) {
	b := intercepting(t, tlsOrigin(t, http.HandlerFunc(endlessHints), "h2"), allow("api.test"), true)
	c := b.browser(t, true)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			cancel()
			return nil
		}})
		req, _ := http.NewRequestWithContext(ctx, "GET", "https://api.test/", nil)
		if resp, err := c.Do(req); err == nil {
			t.Fatal(resp.Status)
		}
		cancel()
	}
}

// TestInterimAnswersAreBounded: they are no channel that never comes to a verdict.
func TestInterimAnswersAreBounded(t *testing.T) {
	for name, h2 := range bothVersions {
		for _, protocol := range []string{"h2", "http/1.1"} {
			t.Run(name+" to "+protocol, func(t *testing.T) {
				b := intercepting(t, tlsOrigin(t, http.HandlerFunc(endlessHints), protocol), allow("api.test"), true)
				var hints atomic.Int32
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
					hints.Add(1)
					return nil
				}})
				req, _ := http.NewRequestWithContext(ctx, "GET", "https://api.test/", nil)
				resp, err := b.browser(t, h2).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != 502 || !strings.Contains(string(body), "interim") {
					t.Errorf("%s %s", resp.Status, body)
				}
				if n := hints.Load(); n < h1.MaxInterim || n > h1.MaxInterim+1 {
					t.Errorf("%d passed", n)
				}
			})
		}
	}
}

// TestDialForARequestThatIsGone: a connection comes up for a request that was
// given up meanwhile, and whose record is written.
func TestDialForARequestThatIsGone(t *testing.T) {
	dialling, goOn := make(chan struct{}), make(chan struct{})
	busy := make(chan struct{})
	origin := tlsOrigin(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(busy)
		<-r.Context().Done()
	}), "http/1.1")
	b := intercepting(t, origin, allow("api.test"), true)
	var dials atomic.Int32
	b.srv.o.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		if dials.Add(1) == 2 {
			close(dialling)
			<-goOn
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", origin)
	}
	c := b.browser(t, true)
	get := func(ctx context.Context) {
		req, _ := http.NewRequestWithContext(ctx, "GET", "https://api.test/", nil)
		if resp, err := c.Do(req); err == nil {
			resp.Body.Close()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); get(ctx) }()
	<-busy
	second, giveUp := context.WithCancel(t.Context())
	go func() { <-dialling; giveUp() }()
	get(second)
	close(goOn)                                                                       // whatever the proxy is at
	if !eventually(patience, func() bool { return len(b.records.verdicts()) == 2 }) { // the tunnel's and the second request's
		t.Errorf("records %+v", b.records.verdicts())
	}
	cancel()
	<-ended
}

// TestStreamsShareTheRoomForOrigins: the streams of a few tunnels do not become
// as many connections to an origin that speaks HTTP/1.
func TestStreamsShareTheRoomForOrigins(t *testing.T) {
	goOn := make(chan struct{})
	origin := tlsOrigin(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
	}), "http/1.1")
	b := intercepting(t, origin, allow("api.test"), true)
	const room, streams = 3, 20
	b.srv.h2.origins = make(chan struct{}, room)
	c := b.browser(t, true)
	statuses := make(chan int, streams)
	for range streams {
		go func() {
			resp, err := c.Get("https://api.test/")
			if err != nil {
				statuses <- 0
				return
			}
			resp.Body.Close()
			statuses <- resp.StatusCode
		}()
	}
	for range streams - room - 1 { // one has the connection that came with the tunnel
		if status := <-statuses; status != 503 {
			t.Errorf("status %d", status)
		}
	}
	close(goOn)
	for range room + 1 {
		if status := <-statuses; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	b.srv.h2.injected.CloseIdleConnections()
	if !eventually(patience, func() bool { return len(b.srv.h2.origins) == 0 }) {
		t.Errorf("%d are still counted", len(b.srv.h2.origins))
	}
}
