package ingress

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// notes keeps records and tells of each end.
type notes struct {
	mu   sync.Mutex
	all  []egress.DecisionLog
	ends chan egress.DecisionLog
}

func (n *notes) Record(l egress.DecisionLog) {
	n.mu.Lock()
	n.all = append(n.all, l)
	n.mu.Unlock()
	if l.Flow.Kind == "end" {
		n.ends <- l
	}
}

func (n *notes) count() int { n.mu.Lock(); defer n.mu.Unlock(); return len(n.all) }

func newServer(t *testing.T) (*Server, *notes) {
	n := &notes{ends: make(chan egress.DecisionLog, 16)}
	s := New(Options{RunID: uuid.New(), Agent: netip.MustParseAddr("127.0.0.1"), Sink: n, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
	})
	return s, n
}

func listenTCP(t *testing.T) (net.Listener, uint16) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, uint16(l.Addr().(*net.TCPAddr).Port)
}

// task echoes what a client sends in capitals and ends when the client does.
func task(t *testing.T) uint16 {
	l, port := listenTCP(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			io.WriteString(c, strings.ToUpper(string(b)))
			c.Close()
		}
	}()
	return port
}

// K18: bytes go in and out, half-closes are passed on, and each flow has one
// verdict and one end that count it.
func TestK18TCPFlow(t *testing.T) {
	s, n := newServer(t)
	l, port := listenTCP(t)
	to := task(t)
	go s.ServeTCP(l, Port{Label: "http", Host: port, To: to})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "hello")
	c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); string(b) != "HELLO" {
		t.Fatalf("%q, %v", b, err)
	}
	end := <-n.ends
	f, r := end.Flow, end.Request
	if f.BytesUp != 5 || f.BytesDown != 5 || f.Close != "closed" || f.Direction != egress.Inbound || f.Rule != "ports: http" {
		t.Errorf("end record %+v", f)
	}
	if r.Host != "127.0.0.1" || r.Port != int(port) || end.RuleSource != "policy:port" || end.Decision != egress.Allow {
		t.Errorf("end record %+v", end)
	}
	if n.count() != 2 || n.all[0].Flow.Kind != "decision" || n.all[0].Flow.FlowID != f.FlowID {
		t.Errorf("records %+v", n.all)
	}
}

// wantReset connects and wants to be reset, which may come before Dial is done.
func wantReset(t *testing.T, l net.Listener) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

// A task that does not listen is no end of an answer: the client is reset.
func TestNothingListens(t *testing.T) {
	s, n := newServer(t)
	l, port := listenTCP(t)
	gone, to := listenTCP(t)
	gone.Close()
	go s.ServeTCP(l, Port{Label: "http", Host: port, To: to})
	wantReset(t, l)
	if end := <-n.ends; !strings.HasPrefix(end.Flow.Close, "the task does not listen") {
		t.Errorf("reason %q", end.Flow.Close)
	}
}

// Shutdown cuts what does not end by itself, and leaves no goroutine: it
// returns only when all are gone.
func TestShutdownCuts(t *testing.T) {
	s, n := newServer(t)
	l, port := listenTCP(t)
	to := task(t)
	served := make(chan error, 1)
	go func() { served <- s.ServeTCP(l, Port{Label: "http", Host: port, To: to}) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "x")
	for n.count() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(ctx)
	if err := <-served; err != nil {
		t.Errorf("served: %v", err)
	}
	<-n.ends
}

// Each client of a UDP port has a session of its own: answers reach nobody
// else, and silence ends it with one record.
func TestK18UDPSessions(t *testing.T) {
	s, n := newServer(t)
	up, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	go func() {
		b := make([]byte, 64)
		for {
			k, from, err := up.ReadFrom(b)
			if err != nil {
				return
			}
			up.WriteTo([]byte(strings.ToUpper(string(b[:k]))), from)
		}
	}()
	in, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p := Port{Label: "dns", Host: uint16(in.LocalAddr().(*net.UDPAddr).Port), To: uint16(up.LocalAddr().(*net.UDPAddr).Port)}
	go s.serveUDP(in, p, 5*time.Second) // an answer takes its time on a busy machine
	var clients []net.Conn
	for range 2 {
		c, err := net.Dial("udp", in.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	for i, word := range []string{"one", "three"} {
		b := make([]byte, 64)
		io.WriteString(clients[i], word)
		clients[i].SetReadDeadline(time.Now().Add(time.Minute))
		if k, err := clients[i].Read(b); string(b[:k]) != strings.ToUpper(word) {
			t.Errorf("client %d got %q, %v", i, b[:k], err)
		}
	}
	sizes := map[int64]bool{}
	for range 2 {
		end := <-n.ends
		sizes[end.Flow.BytesUp] = true
		if end.Flow.Close != "idle" || end.Flow.Scheme != "udp" {
			t.Errorf("end %+v", end.Flow)
		}
	}
	if !sizes[3] || !sizes[5] || n.count() != 4 {
		t.Errorf("sizes %v, %d records; want one session of 3 and one of 5 bytes", sizes, n.count())
	}
}

// Over the cap clients are reset; a flood makes one record a second at most.
func TestCap(t *testing.T) {
	s, n := newServer(t)
	l, port := listenTCP(t)
	s.conns = maxConns
	go s.ServeTCP(l, Port{Label: "http", Host: port})
	for range 20 {
		wantReset(t, l)
	}
	if k := n.count(); k == 0 || k > 19 || n.all[0].Decision != egress.Deny || n.all[0].RuleSource != "builtin:limit" {
		t.Errorf("%d records: %+v", k, n.all)
	}
}
