package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// seenRequest is one request that the fake upstream read.
type seenRequest struct {
	line    string
	headers [][2]string
	body    []byte
	trailer http.Header
}

// values returns all values of a header; names compare without case.
func (r seenRequest) values(name string) []string {
	var out []string
	for _, h := range r.headers {
		if strings.EqualFold(h[0], name) {
			out = append(out, h[1])
		}
	}
	return out
}

// fakeUpstream plays every origin: it takes each dial, whatever the address.
type fakeUpstream struct {
	ca     *testCA
	refuse bool
	l      net.Listener
	wg     sync.WaitGroup

	mu       sync.Mutex
	dialed   []netip.AddrPort
	requests []seenRequest
	raw      [][]byte // bytes received, one entry per connection
	conns    []net.Conn
}

func newFakeUpstream(t testing.TB, ca *testCA) *fakeUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &fakeUpstream{ca: ca, l: l}
	u.wg.Add(1)
	go u.accept()
	t.Cleanup(func() {
		l.Close()
		u.mu.Lock()
		for _, c := range u.conns {
			c.Close()
		}
		u.mu.Unlock()
		u.wg.Wait()
	})
	return u
}

func (u *fakeUpstream) dial(ctx context.Context, ap netip.AddrPort) (net.Conn, error) {
	u.mu.Lock()
	u.dialed = append(u.dialed, ap)
	u.mu.Unlock()
	if u.refuse {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", u.l.Addr().String())
}

func (u *fakeUpstream) accept() {
	defer u.wg.Done()
	for {
		c, err := u.l.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		u.conns = append(u.conns, c)
		u.raw = append(u.raw, nil)
		at := len(u.raw) - 1
		u.mu.Unlock()
		u.wg.Add(1)
		go func() {
			defer func() { c.Close(); u.wg.Done() }()
			u.serve(&recordedConn{Conn: c, u: u, at: at})
		}()
	}
}

// recordedConn notes every byte that is read.
type recordedConn struct {
	net.Conn
	u  *fakeUpstream
	at int
}

func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.u.mu.Lock()
	c.u.raw[c.at] = append(c.u.raw[c.at], p[:n]...)
	c.u.mu.Unlock()
	return n, err
}

type bufferedConn struct {
	net.Conn
	br *bufio.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.br.Read(p) }

func (u *fakeUpstream) serve(c net.Conn) {
	br := bufio.NewReaderSize(c, 256<<10)
	first, err := br.Peek(1)
	if err != nil {
		return
	}
	if first[0] != 0x16 {
		u.serveHTTP(c, br)
		return
	}
	tc := tls.Server(bufferedConn{c, br}, &tls.Config{
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name := h.ServerName
			if name == "" {
				name = "8.8.8.8"
			}
			return u.ca.leaf(strings.ToLower(name))
		},
	})
	if tc.Handshake() == nil {
		u.serveHTTP(tc, bufio.NewReaderSize(tc, 256<<10))
	}
	io.Copy(io.Discard, br)
}

func (u *fakeUpstream) serveHTTP(c net.Conn, br *bufio.Reader) {
	for {
		seen, err := readHead(br)
		if err != nil {
			io.Copy(io.Discard, br)
			return
		}
		req, err := http.ReadRequest(br)
		if err != nil {
			io.Copy(io.Discard, br)
			return
		}
		u.mu.Lock()
		u.requests = append(u.requests, seen)
		at := len(u.requests) - 1
		u.mu.Unlock()
		if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		u.mu.Lock()
		u.requests[at].body, u.requests[at].trailer = body, req.Trailer
		u.mu.Unlock()
		answer := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: X-Internal\r\nX-Internal: 1\r\n" +
			"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic realm=\"x\"\r\nX-Wardyn-Egress: forged\r\n\r\n"
		if req.Method != "HEAD" {
			answer += "ok"
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// readHead looks at a request head without consuming it.
func readHead(br *bufio.Reader) (seenRequest, error) {
	for n := 1; ; n = br.Buffered() + 1 {
		if _, err := br.Peek(n); err != nil {
			return seenRequest{}, err
		}
		b, _ := br.Peek(br.Buffered())
		end := bytes.Index(b, []byte("\r\n\r\n"))
		if end < 0 {
			continue
		}
		lines := strings.Split(string(b[:end]), "\r\n")
		seen := seenRequest{line: lines[0]}
		for _, l := range lines[1:] {
			name, value, _ := strings.Cut(l, ":")
			seen.headers = append(seen.headers, [2]string{name, strings.TrimSpace(value)})
		}
		return seen, nil
	}
}
