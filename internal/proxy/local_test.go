package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// brokerPlane is a control plane that notes what is brokered to it.
type brokerPlane struct {
	mu    sync.Mutex
	calls []string
	body  []byte
	heads []http.Header
}

func (p *brokerPlane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls, p.body, p.heads = append(p.calls, r.Method+" "+r.URL.RequestURI()), body, append(p.heads, r.Header)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Internal", "1")
	w.Header().Set("Retry-After", "7")
	fmt.Fprint(w, `{"ok":true}`)
}

func withBroker(t *testing.T) (*bench, *brokerPlane) {
	t.Helper()
	p := &brokerPlane{}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	client, err := controlplane.New(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	client.SetToken("run-token-0123456789")
	return newBench(t, setup{config: egress.Config{Policy: allow()}, tweak: func(o *Options) { o.Control = client }}), p
}

const someID = "33333333-3333-4333-8333-333333333333"

func TestP45BrokeredRoutes(t *testing.T) {
	b, p := withBroker(t)
	for send, want := range map[string]string{
		"POST /wardyn/v1/credentials/mint?x=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer mine\r\nCookie: a\r\nX-Any: y\r\nContent-Length: 2\r\n\r\n{}": "POST /api/v1/internal/credentials/mint",
		"GET /wardyn/v1/approvals/" + someID + " HTTP/1.1\r\nHost: x\r\n\r\n":                                                                            "GET /api/v1/internal/approvals/" + someID,
		"PUT /wardyn/v1/recordings/" + someID + "?q HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n":                       "PUT /api/v1/internal/recordings/" + someID,
		"PUT /wardyn/v1/scan-results/" + someID + " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n":                            "PUT /api/v1/internal/scan-results/" + someID,
	} {
		c := b.dial(t)
		c.send(t, send)
		r := c.answer(t, "GET")
		if r.StatusCode == 100 {
			r = c.answer(t, "GET")
		}
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != 200 || string(body) != `{"ok":true}` || r.Header.Get("X-Internal") != "" || r.Header.Get("Retry-After") != "7" {
			t.Errorf("%q: %s %q %v", send, r.Status, body, r.Header)
		}
		p.mu.Lock()
		if got := p.calls[len(p.calls)-1]; got != want {
			t.Errorf("%q went to %s, want %s", send, got, want)
		}
		h := p.heads[len(p.heads)-1]
		if h.Get("Authorization") != "Bearer run-token-0123456789" || h.Get("Cookie") != "" || h.Get("X-Any") != "" { // P47
			t.Errorf("%q: headers %v", send, h)
		}
		p.mu.Unlock()
	}
}

// Uploads that never end leave the control plane connections for records,
// approvals and credentials.
func TestP45SlowUploadsLeaveRoom(t *testing.T) {
	b, _ := withBroker(t)
	var slow []*client
	for range maxBrokered {
		c := b.dial(t)
		c.send(t, "PUT /wardyn/v1/recordings/"+someID+" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
		slow = append(slow, c)
	}
	eventually(patience, func() bool { return len(b.srv.brokered) == maxBrokered })
	ask := func() int {
		c := b.dial(t)
		c.send(t, "GET /wardyn/v1/approvals/"+someID+" HTTP/1.1\r\nHost: x\r\n\r\n")
		return c.answer(t, "GET").StatusCode
	}
	if got := ask(); got != 429 {
		t.Errorf("one more: %d", got)
	}
	slow[0].send(t, "0\r\n\r\n")
	if r := slow[0].answer(t, "PUT"); r.StatusCode != 200 {
		t.Errorf("an upload that ends: %s", r.Status)
	}
	eventually(patience, func() bool { return len(b.srv.brokered) < maxBrokered })
	if got := ask(); got != 200 {
		t.Errorf("when one has ended: %d", got)
	}
}

func TestE88OversizeUploadsAreRefusedWhole(t *testing.T) {
	b, p := withBroker(t)
	big := 8*mib + 1
	c := b.dial(t)
	c.send(t, fmt.Sprintf("PUT /wardyn/v1/scan-results/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", someID, big))
	if r := c.answer(t, "PUT"); r.StatusCode != 413 {
		t.Errorf("announced: %s", r.Status)
	}
	c = b.dial(t)
	c.SetDeadline(time.Now().Add(patience))
	go func() {
		fmt.Fprintf(c, "PUT /wardyn/v1/scan-results/%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", someID)
		chunk := []byte(fmt.Sprintf("%x\r\n%s\r\n", mib, bytes.Repeat([]byte("x"), mib)))
		for range 9 {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
		io.WriteString(c, "0\r\n\r\n")
	}()
	if r := c.answer(t, "PUT"); r.StatusCode != 413 {
		t.Errorf("in chunks: %s", r.Status)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) != 0 {
		t.Errorf("the control plane took %v with %d bytes", p.calls, len(p.body))
	}
}

func TestLocalRoutesWithoutControlPlane(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow()}, tweak: func(o *Options) { o.Control = nil }})
	if r, body := b.exchange(t, "GET /wardyn/v1/approvals/"+someID+" HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 503 || !strings.Contains(body, "no_control_plane") {
		t.Errorf("%s %q", r.Status, body)
	}
}

func TestE96PrintableNeverPanics(t *testing.T) {
	for in, want := range map[string]string{
		"a.test": "a.test", "b\xc3\xbc": `b\xc3\xbc`, "cut\xc3": `cut\xc3`, "\x1b[31m": `\x1b[31m`, "\x00\r\n": `\x00\x0d\x0a`, "\u202e": `\xe2\x80\xae`,
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := printable(strings.Repeat("\xff", 1<<20)); len(got) > 10000 {
		t.Errorf("%d bytes", len(got))
	}
}
