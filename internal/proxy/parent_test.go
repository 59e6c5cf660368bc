package proxy

import (
	"bufio"
	"context"
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

// corporate is an upstream proxy that notes what it is asked for and connects
// everything to one place.
type corporate struct {
	l      net.Listener
	origin string
	early  string // sent right behind a 200
	silent bool
	status int

	mu    sync.Mutex
	lines []string
	auth  []string
	up    []string // X-Upstream-Https-Proxy
}

func newCorporate(t *testing.T, origin string) *corporate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &corporate{l: l, origin: origin, status: 200}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Add(1)
			go func() { defer wg.Done(); defer conn.Close(); c.serve(conn) }()
		}
	}()
	return c
}

func (c *corporate) serve(conn net.Conn) {
	br := bufio.NewReader(conn)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.lines = append(c.lines, req.Method+" "+req.RequestURI)
	c.auth = append(c.auth, req.Header.Get("Proxy-Authorization"))
	c.up = append(c.up, req.Header.Get("X-Upstream-Https-Proxy"))
	status := c.status
	c.mu.Unlock()
	if c.silent {
		io.Copy(io.Discard, br)
		return
	}
	if req.Method != "CONNECT" {
		fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\nok", status)
		return
	}
	fmt.Fprintf(conn, "HTTP/1.1 %d X\r\n\r\n%s", status, c.early)
	if status != 200 {
		return
	}
	up, err := net.Dial("tcp", c.origin)
	if err != nil {
		return
	}
	defer up.Close()
	go func() { io.Copy(up, br); up.Close() }()
	io.Copy(conn, up)
}

// viaCorporate is a bench whose only way out is the upstream proxy.
func viaCorporate(t *testing.T, spec types.RunPolicySpec, node egress.NodeConfig, c *corporate) *bench {
	t.Helper()
	addr := netip.MustParseAddrPort(c.l.Addr().String())
	in := setup{config: egress.Config{Policy: spec, UpstreamProxyURL: "http://us%40er:p%2Fw%3Aord@proxy.corp.test:3128"}, node: node,
		dns: map[string][][]string{"proxy.corp.test": {{"10.1.1.1"}}, "direct.test": {{"93.184.216.34"}}}}
	in.tweak = func(o *Options) {
		direct := o.Dial
		o.Dial = func(ctx context.Context, ap netip.AddrPort) (net.Conn, error) {
			if ap.String() == "10.1.1.1:3128" {
				return (&net.Dialer{}).DialContext(ctx, "tcp", addr.String())
			}
			return direct(ctx, ap)
		}
	}
	return newBench(t, in)
}

func (b *bench) exchange(t *testing.T, send string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(send, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

func TestE136UpstreamProxyGetsAbsoluteForm(t *testing.T) {
	c := newCorporate(t, "")
	b := viaCorporate(t, types.RunPolicySpec{AllowedDomains: []string{"deb.test"}}, egress.NodeConfig{}, c)
	resp, body := b.exchange(t, "GET http://deb.test/x?y HTTP/1.1\r\nHost: deb.test\r\nProxy-Authorization: Basic mine\r\nX-Upstream-Https-Proxy: http://evil\r\n\r\n")
	if resp.StatusCode != 200 || body != "ok" {
		t.Errorf("%s %q", resp.Status, body)
	}
	if len(c.lines) != 1 || c.lines[0] != "GET http://deb.test/x?y" || c.auth[0] != "Basic dXNAZXI6cC93Om9yZA==" { // E140
		t.Errorf("upstream proxy saw %q %q", c.lines, c.auth)
	}
	if c.up[0] != "" {
		t.Errorf("E142: the sandbox chooses the proxy further up: %q", c.up[0])
	}
	eventually(patience, func() bool { return len(b.records.verdicts()) == 2 })
	got := b.records.verdicts()
	if got[0].RuleSource != "builtin:upstream-proxy" || got[0].Decision != egress.Allow {
		t.Errorf("no start record: %+v", got[0])
	}
	if d := got[1]; d.Via != "upstream-proxy" || d.Flow.IPVetted == nil || *d.Flow.IPVetted || d.Flow.Dialed != "" { // E42
		t.Errorf("record %+v %+v", d, d.Flow)
	}
}

func TestE137UpstreamProxyTunnels(t *testing.T) {
	up := newFakeUpstream(t, newCA(t, "ca"))
	c := newCorporate(t, up.l.Addr().String())
	c.early = "early "
	b := viaCorporate(t, types.RunPolicySpec{AllowedDomains: []string{"db.test:5432+tcp", "[2606:4700::1]:9+tcp"}}, egress.NodeConfig{}, c)
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "CONNECT db.test:5432 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: db.test\r\n\r\n")
	br := bufio.NewReader(conn)
	if resp, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"}); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	got := make([]byte, len("early HTTP/1.1 200"))
	if _, err := io.ReadFull(br, got); err != nil || string(got) != "early HTTP/1.1 200" { // E139
		t.Errorf("got %q, %v", got, err)
	}
	c2 := b.dial(t)
	c2.send(t, "CONNECT [2606:4700:0::1]:9 HTTP/1.1\r\n\r\n")
	c2.answer(t, "CONNECT")
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lines) != 2 || c.lines[0] != "CONNECT db.test:5432" || c.lines[1] != "CONNECT [2606:4700::1]:9" {
		t.Errorf("upstream proxy saw %q", c.lines)
	}
}

func TestUpstreamProxyRefuses(t *testing.T) {
	c := newCorporate(t, "")
	b := viaCorporate(t, types.RunPolicySpec{AllowedDomains: []string{"a.test"}}, egress.NodeConfig{}, c)
	for _, status := range []int{403, 407} {
		c.mu.Lock()
		c.status = status
		c.mu.Unlock()
		for _, send := range []string{"CONNECT a.test:443 HTTP/1.1\r\n\r\n", "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"} {
			resp, body := b.exchange(t, send)
			if status == 403 && strings.HasPrefix(send, "GET") {
				if resp.StatusCode != 403 || body != "ok" {
					t.Errorf("an answer for a plain request is the far side's: %s", resp.Status)
				}
				continue
			}
			if resp.StatusCode != 502 || !strings.Contains(body, "builtin:upstream-proxy") || !strings.Contains(body, fmt.Sprint(status)) {
				t.Errorf("%q: %s %q", send[:7], resp.Status, body)
			}
			if strings.Contains(body, "p/w") || strings.Contains(body, "corp") || strings.Contains(body, "10.1.1.1") {
				t.Errorf("the answer tells too much: %q", body)
			}
		}
	}
}

func TestG26InsideNamesAreRefused(t *testing.T) {
	c := newCorporate(t, "")
	b := viaCorporate(t, types.RunPolicySpec{AllowAllEgress: true}, egress.NodeConfig{}, c)
	for _, host := range []string{"intranet", "printer.local", "db.internal", "10.0.0.1", "169.254.169.254"} {
		resp, body := b.exchange(t, "GET http://"+host+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp.StatusCode != 403 || !strings.Contains(body, "builtin:private-ip") {
			t.Errorf("%s: %s %q", host, resp.Status, body)
		}
	}
	if len(c.lines) != 0 {
		t.Errorf("upstream proxy saw %q", c.lines)
	}
}

func TestE143BypassKeepsTheGuard(t *testing.T) {
	c := newCorporate(t, "")
	b := viaCorporate(t, types.RunPolicySpec{AllowAllEgress: true}, egress.NodeConfig{ProxyBypass: []string{"direct.test", "*.direct.test"}}, c)
	b.resolver.names["x.direct.test"] = [][]string{{"10.0.0.9"}}
	resp, body := b.exchange(t, "GET http://direct.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if resp.StatusCode != 200 || body != "ok" {
		t.Errorf("direct: %s %q", resp.Status, body)
	}
	if resp, _ := b.exchange(t, "GET http://x.direct.test/ HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != 403 {
		t.Errorf("a private address on the direct path: %s", resp.Status)
	}
	if len(c.lines) != 0 {
		t.Errorf("upstream proxy saw %q", c.lines)
	}
}

func TestP58BadUpstreamURL(t *testing.T) {
	for _, u := range []string{"https://p.test", "socks5://p.test", "http://", "http://p.test/path", "http://p..test", "http://p.test:0", "http://user:hunter2hunter2@p.test:x", "http://p.test?q"} {
		_, _, err := parseParent(u, nil)
		if err == nil {
			t.Errorf("%s is accepted", u)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "p.test") {
			t.Errorf("the error echoes the URL: %v", err)
		}
	}
}
