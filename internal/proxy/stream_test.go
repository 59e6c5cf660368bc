package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

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
			if !eventually(patience, func() bool { return len(b.records.ends()) == 1 }) {
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
		// It closes now, and a POST that finds it closing cannot be sent again.
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n%s", body)
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
