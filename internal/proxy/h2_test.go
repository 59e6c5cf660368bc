package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
