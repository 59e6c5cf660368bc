package proxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// at returns a client of another listener of the bench.
func (b *bench) at(t *testing.T, addr string) *client {
	t.Helper()
	other := *b
	other.addr = addr
	return other.dial(t)
}

func TestG27TransparentHTTP(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow("allowed.test")}, dns: map[string][][]string{"allowed.test": {{"93.184.216.34"}}}})
	addr := b.listen(t, TransparentHTTP)
	for send, want := range map[string]int{
		"GET /x HTTP/1.1\r\nHost: Allowed.test.\r\n\r\n":             200,
		"GET http://allowed.test/x HTTP/1.1\r\nHost: other\r\n\r\n":  200,
		"GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\n":                 403,
		"GET /x HTTP/1.1\r\nHost: allowed.test:8080\r\n\r\n":         421,
		"GET /x HTTP/1.1\r\nHost: a..b\r\n\r\n":                      400,
		"GET /x HTTP/1.0\r\n\r\n":                                    400, // no name
		"GET /wardyn/v1/denials HTTP/1.1\r\nHost: evil.test\r\n\r\n": 403, // no local routes here
		"CONNECT allowed.test:443 HTTP/1.1\r\nHost: x\r\n\r\n":       405,
	} {
		c := b.at(t, addr)
		c.send(t, send)
		r := c.answer(t, strings.Fields(send)[0])
		if r.StatusCode != want {
			t.Errorf("%q: %s, want %d", send, r.Status, want)
		}
	}
	for _, r := range b.upstream.requests {
		if host := r.values("Host"); len(host) != 1 || host[0] != "allowed.test" || r.line != "GET /x HTTP/1.1" {
			t.Errorf("upstream saw %q with Host %q", r.line, host)
		}
	}
}

func TestG27TransparentTLS(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow("allowed.test", "api.test"), MITMHosts: []string{"api.test"}}, needsCA: true,
		dns: map[string][][]string{"allowed.test": {{"93.184.216.34"}}, "api.test": {{"93.184.216.35"}}}})
	addr := b.listen(t, TransparentTLS)
	shake := func(name string) (*tls.Conn, error) {
		tc := tls.Client(b.at(t, addr).Conn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		return tc, tc.Handshake()
	}
	tc, err := shake("allowed.test")
	if err != nil {
		t.Fatal(err)
	}
	if err := tc.ConnectionState().PeerCertificates[0].CheckSignatureFrom(b.roots.cert); err != nil {
		t.Errorf("the tunnel is not opaque: %v", err)
	}
	if tc, err = shake("api.test"); err != nil {
		t.Fatal(err)
	}
	if err := tc.ConnectionState().PeerCertificates[0].CheckSignatureFrom(b.runCA.cert); err != nil {
		t.Errorf("the tunnel is not intercepted: %v", err)
	}
	for name, code := range map[string]string{"evil.test": policy.DefaultDeny, "": policy.SNIMismatch} {
		_, err := shake(name)
		if err == nil || !strings.Contains(err.Error(), "tls: ") {
			t.Errorf("%q: %v, want a TLS alert", name, err)
		}
		if !eventually(patience, func() bool { return hasSource(b.records.verdicts(), code) }) {
			t.Errorf("%q: no record with %s", name, code)
		}
	}
	c := b.at(t, addr)
	c.send(t, "GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
	if got := c.ended(t); strings.Contains(got, "HTTP") {
		t.Errorf("plain HTTP on 443 is answered: %q", got)
	}
	got := b.records.verdicts()
	if got[0].Request.Host != "allowed.test" || got[0].Request.Port != 443 || got[0].Request.Method != "CONNECT" || got[0].Flow.SNI != "allowed.test" {
		t.Errorf("record %+v %+v", got[0], got[0].Flow)
	}
}

func hasSource(list []egress.DecisionLog, source string) bool {
	for _, d := range list {
		if d.RuleSource == source {
			return true
		}
	}
	return false
}

// TestK16OtherLegsAreNotServed: what arrives at another local address than the
// run's own is dropped without a byte.
func TestK16OtherLegsAreNotServed(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow()}, node: egress.NodeConfig{Listen: "127.0.0.9"}})
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go b.srv.Serve(l, Explicit)
	port := netip.MustParseAddrPort(strings.Replace(l.Addr().String(), "[::]", "0.0.0.0", 1)).Port()
	for ip, served := range map[string]bool{"127.0.0.9": true, "127.0.0.1": false} {
		c := b.at(t, fmt.Sprintf("%s:%d", ip, port))
		io.WriteString(c, "GET /wardyn/v1/denials HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if got := c.ended(t); (got != "") != served {
			t.Errorf("over %s: %q", ip, got)
		}
	}
}

func TestG21Denials(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow("allowed.test")}})
	for i := range 3 {
		b.exchange(t, fmt.Sprintf("GET http://h%d.test/secret?token=x HTTP/1.1\r\nHost: x\r\n\r\n", i))
	}
	_, body := b.exchange(t, "GET /wardyn/v1/denials?last=2 HTTP/1.1\r\nHost: x\r\n\r\n")
	var got struct{ Denials []refusal }
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Denials) != 2 {
		t.Fatalf("%q: %v", body, err)
	}
	d := got.Denials[0]
	if d.Host != "h2.test" || d.Port != 80 || d.Code != policy.DefaultDeny || !strings.Contains(d.Hint, `"h2.test:80"`) || d.DecisionID == "" {
		t.Errorf("newest first: %+v", d)
	}
	if strings.Contains(body, "token") {
		t.Errorf("the query is kept: %s", body)
	}
	for _, bad := range []string{"last=0", "last=x", "last=-1"} {
		if r, _ := b.exchange(t, "GET /wardyn/v1/denials?"+bad+" HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 400 {
			t.Errorf("%s: %s", bad, r.Status)
		}
	}
}

func TestRefusalsAreKeptInARing(t *testing.T) {
	var r refusals
	for i := range keptRefusals + 30 {
		r.add(refusal{Port: i})
	}
	got := r.last(keptRefusals + 100)
	if len(got) != keptRefusals || got[0].Port != keptRefusals+29 || got[keptRefusals-1].Port != 30 {
		t.Errorf("%d kept, from %d to %d", len(got), got[0].Port, got[len(got)-1].Port)
	}
}

func TestG21Explain(t *testing.T) {
	spec := types.RunPolicySpec{AllowedDomains: []string{"allowed.test:443", "*.wild.test"}, DeniedDomains: []string{"evil.test"}, FirstUseApproval: types.DenyWithReview}
	b := newBench(t, setup{config: egress.Config{Policy: spec}})
	for query, want := range map[string]string{
		"host=allowed.test":                                  "allow policy:allowed allowed.test:443",
		"host=allowed.test:80":                               "deny policy:default-deny ",
		"host=x.wild.test&port=8443":                         "allow policy:allowed *.wild.test",
		"host=wild.test":                                     "deny policy:default-deny ",
		"host=evil.test":                                     "deny policy:denied evil.test",
		"host=169.254.169.254&port=80&method=GET":            "deny builtin:private-ip ",
		"host=a..b":                                          "deny builtin:bad-host ",
		"host=allowed.test&method=TRACE":                     "deny policy:method ",
		"host=%5B2606:4700::1%5D":                            "deny policy:default-deny ",
		"host=" + strings.Repeat("x", 64) + ".test&port=443": "deny builtin:bad-host ",
	} {
		_, body := b.exchange(t, "GET /wardyn/v1/explain?"+query+" HTTP/1.1\r\nHost: x\r\n\r\n")
		var e explanation
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Fatal(err)
		}
		if got := e.Decision + " " + e.Code + " " + e.Rule; got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if n, calls := b.resolver.queries(), b.control.calls(); n != 0 || len(calls) != 0 {
		t.Errorf("explaining made %d queries and the calls %v", n, calls)
	}
	if len(b.records.verdicts()) != 0 {
		t.Error("explaining left records")
	}
}

// TestG21ExplainKnowsApprovals: what was decided about a first use is told, and
// telling it asks nobody anew.
func TestG21ExplainKnowsApprovals(t *testing.T) {
	for state, want := range map[egress.ApprovalState]string{
		egress.ApprovalApproved: "allow policy:allowed approval",
		egress.ApprovalDenied:   "deny approval:denied ",
		egress.ApprovalPending:  "pending approval:pending ",
		egress.ApprovalExpired:  "deny policy:default-deny ",
	} {
		b := newBench(t, setup{config: egress.Config{Policy: types.RunPolicySpec{FirstUseApproval: types.DenyWithReview}},
			dns:   map[string][][]string{"new.test": {{"93.184.216.34"}}},
			tweak: func(o *Options) { o.Control = &switchable{state: state} }})
		explained := func() string {
			_, body := b.exchange(t, "GET /wardyn/v1/explain?host=new.test HTTP/1.1\r\nHost: x\r\n\r\n")
			var e explanation
			if err := json.Unmarshal([]byte(body), &e); err != nil {
				t.Fatal(err)
			}
			return e.Decision + " " + e.Code + " " + e.Rule
		}
		if got := explained(); got != "deny policy:default-deny " {
			t.Errorf("%s, nobody asked yet: %s", state, got)
		}
		b.exchange(t, "GET http://new.test:443/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if got := explained(); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
}

func TestG22ReasonPhrases(t *testing.T) {
	spec := types.RunPolicySpec{AllowedDomains: []string{"allowed.test"}, FirstUseApproval: types.DenyWithReview, DeniedDomains: []string{"evil.test"}}
	b := newBench(t, setup{config: egress.Config{Policy: spec}})
	r, body := b.exchange(t, "CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
	if r.Status != "403 egress denied: evil.test:443 policy:denied" {
		t.Errorf("%q", r.Status)
	}
	var a answerBody
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(err)
	}
	if a.Wardyn != "denied" || a.Code != "policy:denied" || a.Host != "evil.test" || a.Port != 443 || a.Method != "CONNECT" || a.Rule == nil || *a.Rule != "evil.test" || a.Hint == "" || a.DecisionID == "" {
		t.Errorf("body %s", body)
	}
	r, body = b.exchange(t, "CONNECT new.test:443 HTTP/1.1\r\n\r\n")
	a = answerBody{}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatal(err)
	}
	if a.ApprovalID == nil || a.RetryAfter == nil || r.Status != "403 egress pending: new.test:443 approval "+a.ApprovalID.String() || r.Header.Get("Retry-After") == "" {
		t.Errorf("%q %s", r.Status, body)
	}
	r, _ = b.exchange(t, "CONNECT \x1b[31mevil:443 HTTP/1.1\r\n\r\n")
	if strings.ContainsAny(r.Status, "\x1b\r\n") || r.StatusCode != 400 {
		t.Errorf("%q", r.Status)
	}
}

func TestE84ConnectionsAreCapped(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow()}})
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for range maxConns {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	eventually(patience, func() bool { return len(b.srv.flows.all()) == maxConns })
	r, _ := b.exchange(t, "GET http://allowed.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if r.StatusCode != 503 || r.Header.Get("Retry-After") == "" || r.Header.Get("X-Wardyn-Egress") != "limit" {
		t.Errorf("%s %v", r.Status, r.Header)
	}
	open[0].Close()
	eventually(patience, func() bool { return len(b.srv.flows.all()) < maxConns })
	if r, _ := b.exchange(t, "GET /wardyn/v1/denials HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 200 {
		t.Errorf("with room again: %s", r.Status)
	}
}

func TestE58RevocationCutsWhatIsOpen(t *testing.T) {
	spec := types.RunPolicySpec{FirstUseApproval: types.DenyWithReview, AllowedDomains: []string{"allowed.test"}}
	rv := &switchable{state: egress.ApprovalApproved}
	b := newBench(t, setup{config: egress.Config{Policy: spec},
		dns:   map[string][][]string{"new.test": {{"93.184.216.34"}}, "allowed.test": {{"93.184.216.34"}}},
		tweak: func(o *Options) { o.Control, o.ApprovalTrust = rv, time.Second }})
	shake := func(host string) *tls.Conn {
		c := b.dial(t)
		c.send(t, "CONNECT "+host+":443 HTTP/1.1\r\n\r\n")
		if r := c.answer(t, "CONNECT"); r.StatusCode != 200 {
			t.Fatalf("%s: %s", host, r.Status)
		}
		tc := tls.Client(c.Conn, &tls.Config{ServerName: host, InsecureSkipVerify: true})
		if err := tc.Handshake(); err != nil {
			t.Fatal(err)
		}
		return tc
	}
	revoked, kept := shake("new.test"), shake("allowed.test")
	if d := b.records.verdicts()[0]; d.RuleSource != "policy:allowed" || d.ApprovalID == nil { // G9
		t.Errorf("record after an approval: %+v", d)
	}
	start := time.Now()
	rv.set(egress.ApprovalDenied)
	revoked.SetReadDeadline(time.Now().Add(patience))
	if _, err := revoked.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the tunnel stays open: %v", err)
	}
	t.Logf("cut after %v", time.Since(start))
	if !eventually(patience, func() bool { return len(b.records.ends()) == 1 }) {
		t.Fatal("no end record")
	}
	if d := b.records.ends()[0]; d.RuleSource != policy.Revoked || d.Flow.Close != "revoked" {
		t.Errorf("end record %+v %+v", d, d.Flow)
	}
	if r, _ := b.exchange(t, "CONNECT new.test:443 HTTP/1.1\r\n\r\n"); !strings.Contains(r.Status, "approval:denied") {
		t.Errorf("afterwards: %s", r.Status)
	}
	fmt.Fprintf(kept, "GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
	if _, err := kept.Read(make([]byte, 1)); err != nil {
		t.Errorf("a tunnel that policy allows was cut as well: %v", err)
	}
}

// switchable is a control plane whose approvals all have the state of the moment.
type switchable struct {
	pendingControl
	mu    sync.Mutex
	state egress.ApprovalState
}

func (s *switchable) set(st egress.ApprovalState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = st
}

func (s *switchable) answer(id uuid.UUID) (egress.ApprovalRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return egress.ApprovalRequest{ID: id, State: s.state}, nil
}

func (s *switchable) Raise(ctx context.Context, _ uuid.UUID, _ egress.ApprovalScope) (egress.ApprovalRequest, error) {
	return s.answer(uuid.New())
}

func (s *switchable) Approval(_ context.Context, id uuid.UUID) (egress.ApprovalRequest, error) {
	return s.answer(id)
}

func TestE126ShutdownEndsEverything(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow("db.test:1+tcp")}, dns: map[string][][]string{"db.test": {{"93.184.216.34"}}}})
	idle, tunnel := b.dial(t), b.dial(t)
	idle.send(t, "GET /wardyn/v1/denials HTTP/1.1\r\nHost: x\r\n\r\n")
	io.Copy(io.Discard, idle.answer(t, "GET").Body)
	tunnel.send(t, "CONNECT db.test:1 HTTP/1.1\r\n\r\n")
	tunnel.answer(t, "CONNECT")
	ctx, cancel := withTimeout(t, 200*time.Millisecond)
	defer cancel()
	b.srv.Shutdown(ctx)
	idle.ended(t)
	tunnel.ended(t)
	if ends := b.records.ends(); len(ends) != 1 || ends[0].Flow.Close != "shutdown" {
		t.Errorf("end records %+v", ends)
	}
	if _, err := net.Dial("tcp", b.addr); err == nil {
		t.Error("still listening")
	}
}

func TestE124NotReady(t *testing.T) {
	addr := testenv.Loopback(t).String()
	b := &bench{addr: addr}
	stop := ServeNotReady(t.Context(), addr, quietSlog())
	for _, send := range []string{"GET http://allowed.test/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n"} {
		r, body := b.exchange(t, send)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || !strings.Contains(body, "not_ready") {
			t.Errorf("%s %q", r.Status, body)
		}
	}
	stop()
	if l, err := net.Listen("tcp", addr); err != nil {
		t.Errorf("the address is not free again: %v", err)
	} else {
		l.Close()
	}
}

// TestOneVerdictPerFlow: a flow that was let through has two records with one
// id, a refusal one.
func TestE122OneVerdictPerFlow(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow("allowed.test")}, dns: map[string][][]string{"allowed.test": {{"93.184.216.34"}}}})
	b.exchange(t, "GET http://allowed.test/x?secret=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	b.exchange(t, "GET http://evil.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	eventually(patience, func() bool { return len(b.records.ends()) == 1 && len(b.records.verdicts()) == 2 })
	v, e := b.records.verdicts(), b.records.ends()
	if len(v) != 2 || len(e) != 1 || v[0].Flow.FlowID != e[0].Flow.FlowID || v[0].Flow.FlowID == v[1].Flow.FlowID {
		t.Fatalf("verdicts %+v, ends %+v", v, e)
	}
	d := e[0]
	if d.Flow.BytesDown != 2 || d.Flow.Dialed != "93.184.216.34" || d.Request.Path != "/x" || v[0].Flow.Rule != "allowed.test" || v[0].Flow.Status != 200 {
		t.Errorf("%+v %+v", d, d.Flow)
	}
}

// TestK21RawListener: a client that knows no proxy and no TLS reaches the host
// of an entry with +tcp, and nothing else.
func TestK21RawListener(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: types.RunPolicySpec{AllowedDomains: []string{"db.test:5432+tcp", "tls.test"}, DeniedDomains: []string{"evil.test"}}},
		dns: map[string][][]string{"db.test": {{"93.184.216.34"}}, "tls.test": {{"93.184.216.35"}}}})
	serve := func(authority string) string {
		a, err := egress.ParseAuthority(authority, 0)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go b.srv.ServeRaw(l, a)
		return l.Addr().String()
	}
	c := b.at(t, serve("db.test:5432"))
	c.send(t, "GET / HTTP/1.1\r\nHost: whatever\r\n\r\n")
	if r := c.answer(t, "GET"); r.StatusCode != 200 {
		t.Errorf("%s", r.Status)
	}
	if d := b.records.verdicts()[0]; d.Request.Host != "db.test" || d.Request.Port != 5432 || d.Flow.Visibility != "host" || d.Flow.Dialed != "93.184.216.34" {
		t.Errorf("record %+v %+v", d, d.Flow)
	}
	for authority, source := range map[string]string{"evil.test:5432": policy.Denied, "other.test:5432": policy.DefaultDeny, "tls.test:5432": policy.NotTLS} {
		c := b.at(t, serve(authority))
		if got := c.ended(t); got != "" {
			t.Errorf("%s: %q", authority, got)
		}
		if !eventually(patience, func() bool { return hasSource(b.records.verdicts(), source) }) {
			t.Errorf("%s: no record with %s", authority, source)
		}
	}
}
