package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// ownSource answers for a node whose addresses change.
type ownSource struct {
	mu   sync.Mutex
	list []string
	err  error
	hang bool
	n    int
}

func (o *ownSource) set(err error, hang bool, list ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.hang, o.list = err, hang, list
}

func (o *ownSource) ask(ctx context.Context) ([]string, error) {
	o.mu.Lock()
	o.n++
	list, err, hang := o.list, o.err, o.hang
	o.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return list, err
}

// TestG11AddressesThatTheNodeGains: a name and a literal that may be reached are
// refused once the node itself has their address, over every way in.
func TestG11AddressesThatTheNodeGains(t *testing.T) {
	node := &ownSource{}
	b := newBench(t, setup{
		config: egress.Config{Policy: allow("44.44.44.1", "a.test")}, dns: map[string][][]string{"a.test": {{"44.44.44.1"}}},
		tweak: func(o *Options) { o.Own, o.OwnTrust = node.ask, time.Nanosecond },
	})
	status := func(method, host string) (int, string) {
		target := "http://" + host + "/"
		if method == "CONNECT" {
			target = host + ":443"
		}
		b.srv.pool.Prune(time.Now().Add(time.Hour)) // what is kept open was vetted when it was dialled
		r, body := b.exchange(t, method+" "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		return r.StatusCode, body
	}
	answered := func(want int) {
		t.Helper()
		methods := []string{"GET", "CONNECT"}
		if want == http.StatusOK { // a tunnel that opens would wait for its first bytes
			methods = methods[:1]
		}
		for _, host := range []string{"44.44.44.1", "a.test"} {
			for _, method := range methods {
				var got int
				var body string
				testenv.Eventually(t, method+" of "+host+" is answered otherwise", func() bool {
					got, body = status(method, host)
					return got == want
				})
				if want == http.StatusForbidden && method == "GET" && (!strings.Contains(body, "builtin:private-ip") || !strings.Contains(body, "is an address of this node")) {
					t.Errorf("%s of %s: %s", method, host, body)
				}
			}
		}
	}
	answered(http.StatusOK)
	node.set(nil, false, "44.44.44.1")
	answered(http.StatusForbidden)
	node.set(errors.New("away"), false)
	answered(http.StatusForbidden) // the list before serves
	node.set(nil, true)
	answered(http.StatusForbidden) // nor does anybody wait for one that hangs
	node.set(nil, false, "55.55.55.1")
	answered(http.StatusOK)
}

// TestOwnAddressesAreAskedForSparingly: not again while the list is fresh.
func TestOwnAddressesAreAskedForSparingly(t *testing.T) {
	node := &ownSource{list: []string{"55.55.55.1"}}
	b := newBench(t, setup{
		config: egress.Config{Policy: allow("44.44.44.1")},
		tweak:  func(o *Options) { o.Own, o.OwnTrust = node.ask, time.Hour },
	})
	for range 5 {
		b.exchange(t, "GET http://44.44.44.1/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}
	if node.n != 1 {
		t.Errorf("asked %d times", node.n)
	}
}
