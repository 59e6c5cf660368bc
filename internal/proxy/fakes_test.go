package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/h1"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// bench is a proxy under test with everything round it.
type bench struct {
	srv      *Server
	addr     string
	upstream *fakeUpstream
	resolver *fakeResolver
	control  *fakeControl
	records  *records
	runCA    *testCA
	roots    *testCA
}

type setup struct {
	config   egress.Config
	node     egress.NodeConfig
	dns      map[string][][]string
	needsCA  bool
	refuse   bool
	tweak    func(*Options)
	upstream *fakeUpstream
}

var upstreamCA struct {
	once sync.Once
	ca   *testCA
}

func newBench(t testing.TB, in setup) *bench {
	t.Helper()
	b := &bench{records: &records{}, resolver: &fakeResolver{names: in.dns}}
	upstreamCA.once.Do(func() { upstreamCA.ca = newCA(t, "upstream test CA") })
	b.roots = upstreamCA.ca
	b.upstream = in.upstream
	if b.upstream == nil {
		b.upstream = newFakeUpstream(t, b.roots)
	}
	b.upstream.refuse = in.refuse
	in.config.RunID, in.config.RunToken = testRun.String(), "run-token-0123456789"
	b.control = newFakeControl(t, in.config.Injection)
	in.config.ControlPlaneURL = b.control.srv.URL
	if in.needsCA {
		b.runCA = newCA(t, "run CA")
		in.config.MITMCACertPEM, in.config.MITMCAKeyPEM = b.runCA.pem.cert, b.runCA.pem.key
	}
	o := Options{Config: in.config, Node: in.node, Resolver: b.resolver, Dial: b.upstream.dial, Roots: b.roots.pool(), Sink: b.records, Control: b.control.client}
	if in.tweak != nil {
		in.tweak(&o)
	}
	srv, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.srv = srv
	b.addr = b.listen(t, Explicit)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		srv.Shutdown(ctx)
	})
	return b
}

// listen opens one more way in and returns its address.
func (b *bench) listen(t testing.TB, way Way) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.srv.Serve(l, way) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-done; err != nil && !errors.Is(err, errShutdown) {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

func withTimeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func quietSlog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func h1Request(target string) h1.Request {
	return h1.Request{Method: "GET", Target: target, Minor: 1, Host: "x", HasHost: true}
}
