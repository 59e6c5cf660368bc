package proxy

import (
	"bufio"
	"context"
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
	c.SetDeadline(time.Now().Add(patience))
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
