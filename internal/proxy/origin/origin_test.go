package origin

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestE37TriesTheNextAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(ctx context.Context, ap netip.AddrPort) (net.Conn, error) {
			switch ap.Addr().String() {
			case "2606:4700::1":
				return nil, errors.New("network is unreachable")
			case "93.184.216.1":
				<-ctx.Done() // silent
				return nil, ctx.Err()
			}
			c, _ := net.Pipe()
			return c, nil
		}
		start := time.Now()
		c, ap, err := DialAny(t.Context(), dial, addrs("2606:4700::1", "93.184.216.1", "93.184.216.2"), 443)
		if err != nil || ap.String() != "93.184.216.2:443" {
			t.Fatalf("got %v, %v", ap, err)
		}
		c.Close()
		if d := time.Since(start); d > 2*stagger {
			t.Errorf("took %v", d)
		}
		synctest.Wait()
	})
}

func TestDialFailureNamesAllAndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		start := time.Now()
		if _, _, err := DialAny(t.Context(), dial, addrs("93.184.216.1", "93.184.216.2"), 443); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(start); d != DialTimeout {
			t.Errorf("gave up after %v", d)
		}
	})
}

func TestLosersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		dial := func(_ context.Context, ap netip.AddrPort) (net.Conn, error) {
			time.Sleep(stagger + 50*time.Millisecond)
			c, s := net.Pipe()
			if ap.Addr().String() == "93.184.216.2" {
				go func() { s.Read(make([]byte, 1)); close(closed) }()
			}
			return c, nil
		}
		c, _, err := DialAny(t.Context(), dial, addrs("93.184.216.1", "93.184.216.2"), 443)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		<-closed
	})
}

// pair is a connected pair of TCP sockets.
func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestPoolKeepsOnlyQuietConnections(t *testing.T) {
	k := Key{Authority: egress.Authority{Port: 80}}
	var p Pool
	c, s := pair(t)
	oc := NewConn(c, c, netip.AddrPort{})
	p.Put(k, oc)
	if got := p.Get(Key{Authority: k.Authority, Credential: "x"}); got != nil {
		t.Error("E107: a request with a credential got another's connection")
	}
	if got := p.Get(k); got != oc || !got.Reused {
		t.Errorf("got %v", got)
	}
	p.Put(k, oc)
	s.Close()
	waitUntil(t, func() bool { return !Quiet(c) })
	if got := p.Get(k); got != nil {
		t.Error("a connection that the origin closed is used again")
	}
	c2, s2 := pair(t)
	p.Put(k, NewConn(c2, c2, netip.AddrPort{}))
	s2.Write([]byte("HTTP/1.1 200 OK\r\n"))
	waitUntil(t, func() bool { return !Quiet(c2) })
	if got := p.Get(k); got != nil {
		t.Error("a connection with an answer nobody asked for is used again")
	}
}

func TestPoolIsBoundedAndPruned(t *testing.T) {
	var p Pool
	k := Key{Authority: egress.Authority{Port: 80}}
	for range maxIdlePerKey + 3 {
		c, _ := pair(t)
		p.Put(k, NewConn(c, c, netip.AddrPort{}))
	}
	if p.n != maxIdlePerKey {
		t.Errorf("%d idle connections for one host", p.n)
	}
	p.Prune(time.Now())
	if p.n != maxIdlePerKey {
		t.Error("young connections were pruned")
	}
	p.Prune(time.Now().Add(2 * idleTimeout))
	if p.n != 0 || len(p.idle) != 0 {
		t.Errorf("%d left after their time", p.n)
	}
	p.Close()
	c, _ := pair(t)
	p.Put(k, NewConn(c, c, netip.AddrPort{}))
	if p.Get(k) != nil {
		t.Error("a closed pool takes connections")
	}
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("it did not come true")
}
