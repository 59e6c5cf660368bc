package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// TestE89ClientLeavesBeforeTheAnswer: a request that nobody waits for any more
// holds neither a connection of the sandbox's nor one to the origin; one that
// somebody waits for is left alone, however long the origin is silent.
func TestE89ClientLeavesBeforeTheAnswer(t *testing.T) {
	type step struct {
		after time.Duration // the janitor looks, so long after its first look
		cut   bool
	}
	for name, tt := range map[string]struct {
		leave func(*net.TCPConn) error
		steps []step
		why   string
	}{
		"waits":  {func(*net.TCPConn) error { return nil }, []step{{quietLimit - time.Second, false}, {quietLimit, true}}, "idle"},
		"ended":  {(*net.TCPConn).CloseWrite, []step{{halfLimit - time.Second, false}, {halfLimit, true}}, "half-closed and silent"},
		"closed": {(*net.TCPConn).Close, []step{{halfLimit - time.Second, false}, {halfLimit, true}}, "half-closed and silent"},
		"reset": {func(c *net.TCPConn) error {
			c.SetLinger(0)
			return c.Close()
		}, []step{{time.Second, true}}, "the client has left"},
	} {
		t.Run(name, func(t *testing.T) {
			asked, ended := make(chan struct{}), make(chan struct{})
			b := scripted(t, allow("a.test"), func(_ net.Conn, br *bufio.Reader) {
				head(br)
				close(asked)
				br.ReadByte()
				close(ended)
			})
			c := b.dial(t)
			c.send(t, "GET http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
			<-asked
			if err := tt.leave(c.Conn.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			l := b.srv.flows.all()[0]
			if !eventually(patience, func() bool { s := stateOf(l.conn); return name == "waits" || s.ended || s.gone }) {
				t.Fatal("the kernel does not see it leave")
			}
			if name != "reset" {
				l.look(time.Now())
			}
			start := l.movedAt
			if start.IsZero() {
				start = time.Now()
			}
			for _, s := range tt.steps {
				l.look(start.Add(s.after))
				if cut := l.reason("") != ""; cut != s.cut {
					t.Fatalf("after %v: cut %v, %s", s.after, cut, l.reason("nothing"))
				}
			}
			<-ended
			if !eventually(patience, func() bool { return !b.srv.flows.busy() }) {
				t.Error("the sandbox's connection is held")
			}
			if v := b.records.verdicts(); len(v) != 1 || !strings.HasSuffix(v[0].Cause, tt.why) {
				t.Errorf("records %+v", v)
			}
		})
	}
}

// TestE58RevokedWithinARequest: the records say so, and blame no origin, whether
// the answer has begun or not.
func TestE58RevokedWithinARequest(t *testing.T) {
	asked := make(chan struct{})
	origin := tlsOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			io.WriteString(w, "line\n")
			w.(http.Flusher).Flush()
		}
		asked <- struct{}{}
		<-r.Context().Done()
	}), "h2", "http/1.1")
	for name, h2 := range bothVersions {
		for _, path := range []string{"/begun", "/silent"} {
			t.Run(name+path, func(t *testing.T) {
				b := intercepting(t, origin, allow("api.test"), true)
				c := b.browser(t, h2)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if resp, err := c.Get("https://api.test" + path); err == nil {
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}()
				<-asked
				all := func() []egress.DecisionLog { return append(b.records.verdicts(), b.records.ends()...) }
				if path == "/begun" && !eventually(patience, func() bool { return len(all()) == 2 }) {
					t.Fatal("no verdict")
				}
				b.srv.flows.all()[0].cut(revoked)
				<-ended
				said := func() (n int) {
					for _, d := range all() {
						if d.Request.Path == path && d.RuleSource == policy.Revoked {
							n++
						}
					}
					return n
				}
				if !eventually(patience, func() bool { return said() == 1 }) {
					t.Errorf("records %+v", all())
				}
			})
		}
	}
}

// TestE57TrafficBelowTLSCounts: what moves, or is not taken, at the origin's end
// of an intercepted request is seen as at the sandbox's.
func TestE57TrafficBelowTLSCounts(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	origin := tlsOrigin(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-goOn
	}), "http/1.1")
	b := intercepting(t, origin, allow("api.test"), true)
	done := make(chan error, 1)
	go func() {
		resp, err := b.browser(t, false).Get("https://api.test/")
		if err == nil {
			err = resp.Body.Close()
		}
		done <- err
	}()
	<-asked
	l := b.srv.flows.all()[0]
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	if stateOf(up).moved == 0 {
		t.Error("the kernel is not asked about the connection to the origin")
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
