package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// scripted is a bench whose origin is a function over raw connections.
func scripted(t testing.TB, policy types.RunPolicySpec, serve func(c net.Conn, br *bufio.Reader)) *bench {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); serve(c, bufio.NewReader(c)) })
		}
	})
	return newBench(t, setup{
		config: egress.Config{Policy: policy},
		dns:    map[string][][]string{"a.test": {{"93.184.216.34"}}, "b.test": {{"93.184.216.35"}}},
		tweak: func(o *Options) {
			o.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
			}
		},
	})
}

func allow(hosts ...string) types.RunPolicySpec { return types.RunPolicySpec{AllowedDomains: hosts} }

// client is a connection to the proxy under test.
type client struct {
	net.Conn
	br *bufio.Reader
}

func (b *bench) dial(t testing.TB) *client {
	t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return &client{c, bufio.NewReader(c)}
}

func (c *client) send(t testing.TB, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

func (c *client) answer(t testing.TB, method string) *http.Response {
	t.Helper()
	r, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ended waits for the end of the connection and returns what came before it.
func (c *client) ended(t testing.TB) string {
	t.Helper()
	b, err := io.ReadAll(c.br)
	if isTimeout(err) {
		t.Fatal("the connection stays open")
	}
	return string(b)
}

// head reads one request head and returns it.
func head(br *bufio.Reader) (string, error) {
	var s strings.Builder
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return s.String(), err
		}
		s.WriteString(line)
		if line == "\r\n" {
			return s.String(), nil
		}
	}
}

// TestEventStreamIsUnbuffered: each event is there before the next is written.
func TestEventStreamIsUnbuffered(t *testing.T) {
	for name, framing := range map[string]string{"chunked": "Transfer-Encoding: chunked\r\n", "until close": "Connection: close\r\n"} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
				if _, err := head(br); err != nil {
					return
				}
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%s\r\n", framing)
				for i := range 3 {
					if _, ok := <-next; !ok {
						return
					}
					event := fmt.Sprintf("data: %d\n\n", i)
					if name == "chunked" {
						event = fmt.Sprintf("%x\r\n%s\r\n", len(event), event)
					}
					io.WriteString(c, event)
				}
			})
			t.Cleanup(func() { close(next) })
			c := b.dial(t)
			c.send(t, "GET http://a.test/events HTTP/1.1\r\nHost: a.test\r\n\r\n")
			r := c.answer(t, "GET") // the head is here although no event is
			body := bufio.NewReader(r.Body)
			for i := range 3 {
				next <- struct{}{}
				line, err := body.ReadString('\n')
				if err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("event %d: %q, %v", i, line, err)
				}
				body.ReadString('\n')
			}
		})
	}
}

func TestE73TrailersFollow(t *testing.T) {
	b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		head(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Status\r\n\r\n2\r\nok\r\n0\r\nGrpc-Status: 0\r\nX-Wardyn-Egress: forged\r\n\r\n")
	})
	c := b.dial(t)
	c.send(t, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
	r := c.answer(t, "GET")
	body, _ := io.ReadAll(r.Body)
	if string(body) != "ok" || r.Trailer.Get("Grpc-Status") != "0" || r.Trailer.Get("X-Wardyn-Egress") != "" {
		t.Errorf("%q, trailers %v", body, r.Trailer)
	}
}

func TestLargeBodiesArriveWhole(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	want := sha256.Sum256(big)
	framings := map[string]func(w io.Writer){
		"counted":     func(w io.Writer) { fmt.Fprintf(w, "Content-Length: %d\r\n\r\n", len(big)); w.Write(big) },
		"until close": func(w io.Writer) { io.WriteString(w, "Connection: close\r\n\r\n"); w.Write(big) },
		"chunked": func(w io.Writer) {
			io.WriteString(w, "Transfer-Encoding: chunked\r\n\r\n")
			for p := big; len(p) > 0; {
				n := min(len(p), 50001)
				fmt.Fprintf(w, "%x\r\n", n)
				w.Write(p[:n])
				io.WriteString(w, "\r\n")
				p = p[n:]
			}
			io.WriteString(w, "0\r\n\r\n")
		},
	}
	for name, respond := range framings {
		t.Run(name, func(t *testing.T) {
			got := make(chan [32]byte, 1)
			b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
				req, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				h := sha256.New()
				io.Copy(h, req.Body)
				got <- [32]byte(h.Sum(nil))
				io.WriteString(c, "HTTP/1.1 200 OK\r\n")
				respond(c)
			})
			c := b.dial(t)
			go func() {
				io.WriteString(c, "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n")
				if name == "until close" { // a request cannot end with its connection
					framings["counted"](c)
				} else {
					respond(c)
				}
			}()
			r := c.answer(t, "POST")
			h := sha256.New()
			io.Copy(h, r.Body)
			if up := <-got; up != want || [32]byte(h.Sum(nil)) != want {
				t.Error("a body changed on its way")
			}
			if !eventually(2*time.Second, func() bool { return len(b.records.ends()) == 1 }) {
				t.Fatal("no end record")
			}
			if d := b.records.ends()[0].Flow; d.BytesUp != int64(len(big)) || d.BytesDown != int64(len(big)) || d.Close != "done" {
				t.Errorf("end record %+v", d)
			}
		})
	}
}

func TestConnectionsAreReused(t *testing.T) {
	var mu sync.Mutex
	conns := 0
	b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		mu.Lock()
		conns++
		mu.Unlock()
		for {
			if _, err := head(br); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	c := b.dial(t)
	for range 5 {
		c.send(t, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
		r := c.answer(t, "GET")
		io.Copy(io.Discard, r.Body)
	}
	if conns != 1 {
		t.Errorf("%d connections for 5 requests", conns)
	}
	if n := b.resolver.queries(); n != 1 {
		t.Errorf("%d queries for one dial", n)
	}
}

// TestStaleConnectionIsRetried: the origin closes right when the next request comes.
func TestStaleConnectionIsRetried(t *testing.T) {
	b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		head(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		head(br) // the second request is read and not answered
	})
	c := b.dial(t)
	for i := range 3 {
		c.send(t, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
		r := c.answer(t, "GET")
		io.Copy(io.Discard, r.Body)
		if r.StatusCode != 200 {
			t.Errorf("request %d: %s", i, r.Status)
		}
	}
	for _, body := range []string{"Content-Length: 2\r\n\r\nhi", "Content-Length: 0\r\n\r\n"} {
		c.send(t, "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n"+body)
		r := c.answer(t, "POST")
		io.Copy(io.Discard, r.Body)
		if r.StatusCode != 502 {
			t.Errorf("a request that may have had an effect was repeated: %s", r.Status)
		}
		c.send(t, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n") // leaves an idle connection again
		r = c.answer(t, "GET")
		io.Copy(io.Discard, r.Body)
	}
}

// TestE76ExpectContinue: the origin decides whether the body is wanted.
func TestE76ExpectContinue(t *testing.T) {
	b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		h, _ := head(br)
		if !strings.Contains(h, "Expect: 100-continue") {
			t.Errorf("the expectation did not go upstream: %q", h)
		}
		if strings.HasPrefix(h, "POST /no ") {
			io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
			io.Copy(io.Discard, br)
			return
		}
		io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		body := make([]byte, 2)
		io.ReadFull(br, body)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%s", body)
	})
	c := b.dial(t)
	c.send(t, "POST http://a.test/yes HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if r := c.answer(t, "POST"); r.StatusCode != 100 {
		t.Fatalf("first %s, want 100", r.Status)
	}
	c.send(t, "hi")
	r := c.answer(t, "POST")
	if body, _ := io.ReadAll(r.Body); r.StatusCode != 200 || string(body) != "hi" {
		t.Errorf("%s %q", r.Status, body)
	}
	c.send(t, "POST http://a.test/no HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if r := c.answer(t, "POST"); r.StatusCode != 413 {
		t.Errorf("%s, want 413 and no 100 before it", r.Status)
	}
	c.ended(t)
}

func TestE66UpstreamNeverTakesHalfABodyForAWholeOne(t *testing.T) {
	got := make(chan error, 1)
	b := scripted(t, allow("a.test"), func(_ net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			got <- err
			return
		}
		_, err = io.ReadAll(req.Body)
		got <- err
	})
	c := b.dial(t)
	c.send(t, "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	time.Sleep(20 * time.Millisecond)
	c.send(t, "0x2\r\nhi\r\n0\r\n\r\n")
	if r := c.answer(t, "POST"); r.StatusCode != 400 {
		t.Errorf("%s, want 400", r.Status)
	}
	c.ended(t)
	if err := <-got; err == nil {
		t.Error("the origin read a whole body")
	}
}

func TestE74AnswersWithoutBody(t *testing.T) {
	b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		for {
			h, err := head(br)
			if err != nil {
				return
			}
			switch {
			case strings.HasPrefix(h, "HEAD"):
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
			case strings.HasPrefix(h, "GET /304"):
				io.WriteString(c, "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nETag: \"x\"\r\n\r\n")
			default:
				io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		}
	})
	c := b.dial(t)
	for _, req := range []string{"HEAD /", "GET /304", "GET /204", "HEAD /"} {
		method, path, _ := strings.Cut(req, " ")
		c.send(t, method+" http://a.test"+path+" HTTP/1.1\r\nHost: a.test\r\n\r\n")
		r := c.answer(t, method)
		if body, err := io.ReadAll(r.Body); err != nil || len(body) != 0 || len(r.TransferEncoding) != 0 {
			t.Errorf("%s: body %q, coding %v, %v", req, body, r.TransferEncoding, err)
		}
		if method == "HEAD" && r.ContentLength != 1234 {
			t.Errorf("HEAD: Content-Length %d", r.ContentLength)
		}
	}
}

func TestHTTP10ClientGetsCountedOrClosed(t *testing.T) {
	b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		head(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
	})
	c := b.dial(t)
	c.send(t, "GET http://a.test/ HTTP/1.0\r\n\r\n")
	got := c.ended(t)
	if !strings.HasSuffix(got, "\r\n\r\nok") || strings.Contains(got, "chunked") {
		t.Errorf("got %q", got)
	}
}

func TestUnwantedAnswers(t *testing.T) {
	answers := map[string]string{
		"E79 unsolicited 101":  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nsecret",
		"E71 origin's 407":     "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
		"E81 response NUL":     "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
		"not HTTP":             "SSH-2.0-x\r\n",
		"E75 HTTP/2 status":    "HTTP/2 200\r\nContent-Length: 0\r\n\r\n",
		"no answer at all":     "",
		"lengths that differ":  "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"head over 256 KiB":    "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 300<<10) + "\r\n\r\n",
		"unknown transfer cod": "HTTP/1.1 200 OK\r\nTransfer-Encoding: br\r\n\r\n",
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
				head(br)
				io.WriteString(c, answer)
			})
			c := b.dial(t)
			c.send(t, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
			r := c.answer(t, "GET")
			body, _ := io.ReadAll(r.Body)
			if r.StatusCode != 502 || bytes.Contains(body, []byte("secret")) || r.Header.Get("Proxy-Authenticate") != "" {
				t.Errorf("%s %q", r.Status, body)
			}
			got := b.records.verdicts()
			if len(got) != 1 || got[0].Decision != egress.Deny || got[0].RuleSource != "builtin:dial-failed" || got[0].Cause == "" {
				t.Errorf("records %+v", got)
			}
		})
	}
}

func TestE80WebSocketIsRelayed(t *testing.T) {
	b := scripted(t, allow("a.test"), func(c net.Conn, br *bufio.Reader) {
		h, _ := head(br)
		if !strings.Contains(h, "Upgrade: websocket\r\n") || !strings.Contains(h, "Connection: Upgrade\r\n") {
			t.Errorf("the upgrade was not offered: %q", h)
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nfirst frame")
		io.Copy(c, br)
	})
	c := b.dial(t)
	c.send(t, "GET http://a.test/ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n\r\nearly ")
	r := c.answer(t, "GET")
	if r.StatusCode != 101 || r.Header.Get("Sec-WebSocket-Accept") != "x" || r.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("%s %v", r.Status, r.Header)
	}
	c.send(t, "frame")
	c.Conn.(*net.TCPConn).CloseWrite()
	if got := c.ended(t); got != "first frameearly frame" {
		t.Errorf("relayed %q", got)
	}
	if !eventually(2*time.Second, func() bool { return len(b.records.ends()) == 1 }) {
		t.Fatal("no end record")
	}
	if d := b.records.ends()[0].Flow; d.BytesUp != 11 || d.BytesDown != 11 {
		t.Errorf("end record %+v", d)
	}
}

func TestE56HalfCloseIsPassedOn(t *testing.T) {
	b := scripted(t, allow("a.test:9+tcp"), func(c net.Conn, br *bufio.Reader) {
		all, _ := io.ReadAll(br) // until the client's end
		fmt.Fprintf(c, "got %q", all)
	})
	c := b.dial(t)
	c.send(t, "CONNECT a.test:9 HTTP/1.1\r\n\r\nquestion")
	if r := c.answer(t, "CONNECT"); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	c.Conn.(*net.TCPConn).CloseWrite()
	if got := c.ended(t); got != `got "question"` {
		t.Errorf("got %q", got)
	}
}

func TestE52ServerSpeaksFirstOnRawEntry(t *testing.T) {
	b := scripted(t, allow("a.test:25+tcp", "a.test"), func(c net.Conn, br *bufio.Reader) {
		io.WriteString(c, "220 ready\r\n")
		br.ReadString('\n')
	})
	c := b.dial(t)
	c.send(t, "CONNECT a.test:25 HTTP/1.1\r\n\r\n")
	c.answer(t, "CONNECT")
	if line, err := c.br.ReadString('\n'); err != nil || line != "220 ready\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestManyClientsShareThePool hands connections from request to request as
// fast as it goes; under the race detector it shows who still holds one.
func TestManyClientsShareThePool(t *testing.T) {
	b := scripted(t, allow("a.test", "b.test"), func(c net.Conn, br *bufio.Reader) {
		for {
			h, err := head(br)
			if err != nil {
				return
			}
			path := strings.Fields(h)[1]
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path), path)
		}
	})
	var wg sync.WaitGroup
	for n := range 16 {
		c := b.dial(t)
		wg.Go(func() {
			for i := range 100 {
				host, path := []string{"a.test", "b.test"}[i%2], fmt.Sprintf("/%d/%d", n, i)
				fmt.Fprintf(c, "GET http://%s%s HTTP/1.1\r\nHost: x\r\n\r\n", host, path)
				r, err := http.ReadResponse(c.br, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if body, _ := io.ReadAll(r.Body); string(body) != path {
					t.Errorf("asked for %s, got %s", path, body)
					return
				}
			}
		})
	}
	wg.Wait()
}
