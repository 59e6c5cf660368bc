package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// TestE40NewNamesAreRationed: a wildcard is no channel for made-up names.
func TestE40NewNamesAreRationed(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow("*.corp.test", "other.test")}, dns: map[string][][]string{"": {{"93.184.216.34"}}}})
	refusedAt := 0
	for i := range 10 * newNamesBurst { // on a busy machine some are earned meanwhile
		r, body := b.exchange(t, fmt.Sprintf("GET http://secret%d.k.corp.test/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", i))
		if r.StatusCode == 429 && strings.Contains(body, "builtin:limit") && r.Header.Get("Retry-After") != "" {
			refusedAt = i
			break
		}
	}
	if refusedAt < newNamesBurst {
		t.Fatalf("refused at name %d", refusedAt)
	}
	if n := b.resolver.queries(); n != refusedAt {
		t.Errorf("%d queries for %d names", n, refusedAt)
	}
	for _, known := range []string{"secret0.k.corp.test", "other.test"} {
		if r, _ := b.exchange(t, "GET http://"+known+"/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); r.StatusCode != 200 {
			t.Errorf("%s: %s", known, r.Status)
		}
	}
}

func TestNameBudgetIsBounded(t *testing.T) {
	var b nameBudget
	now := time.Now()
	for i := range 3 * maxDomains {
		h, _ := egress.ParseHost(fmt.Sprintf("a.d%d.test", i))
		now = now.Add(time.Second)
		if !b.spend(h, now) {
			t.Fatalf("the first name below %s is refused", h)
		}
	}
	if len(b.domains) > maxDomains {
		t.Errorf("%d domains kept", len(b.domains))
	}
	for i := range 3 * maxKnownNames {
		h, _ := egress.ParseHost(fmt.Sprintf("n%d.x.test", i))
		now = now.Add(newNamesEvery)
		if !b.spend(h, now) {
			t.Fatalf("name %d is refused although they come slowly", i)
		}
	}
	if n := len(b.domains["x.test"].known); n > maxKnownNames {
		t.Errorf("%d names kept", n)
	}
}

// TestLearnModePassesAndSaysSo: within the ceilings, over neither deny list nor
// guard, and without credentials beyond exact entries.
func TestLearnModePassesAndSaysSo(t *testing.T) {
	spec := types.RunPolicySpec{AllowedDomains: []string{"listed.test"}, DeniedDomains: []string{"evil.test"}, FirstUseApproval: types.WaitForReview}
	b := newBench(t, setup{config: egress.Config{Policy: spec}, dns: map[string][][]string{"": {{"93.184.216.34"}}, "private.test": {{"10.0.0.1"}}},
		node: egress.NodeConfig{Learn: true, AllowCeiling: []string{"*.test"}}})
	for host, want := range map[string]int{"listed.test": 200, "new.test": 200, "evil.test": 403, "private.test": 403, "new.example": 403, "169.254.169.254": 403} {
		if r, body := b.exchange(t, "GET http://"+host+"/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); r.StatusCode != want {
			t.Errorf("%s: %s %s", host, r.Status, body)
		}
	}
	for _, d := range b.records.verdicts() {
		learned := d.Request.Host == "new.test"
		if (d.Flow.Rule == policy.LearnRule) != learned && d.Decision == egress.Allow || learned && !strings.HasPrefix(d.Cause, "would be denied") {
			t.Errorf("record %+v %+v", d, d.Flow)
		}
	}
	if calls := b.control.calls(); len(calls) != 0 {
		t.Errorf("learning raised approvals: %v", calls)
	}
}

// judge is an evaluator that a test replaces the policy's lists with.
type judge struct {
	opinion egress.Opinion
	err     error
}

func (judge) Name() string                { return "test judge" }
func (judge) MethodAllowed(m string) bool { return m != "DELETE" }
func (j judge) EvaluateHost(context.Context, egress.Request) (egress.Opinion, error) {
	return j.opinion, j.err
}

func TestT29Evaluator(t *testing.T) {
	for want, j := range map[string]judge{
		policy.EvaluatorError: {egress.Allowed, errors.New("broken")}, policy.Denied: {egress.Denied, nil},
		policy.DefaultDeny: {egress.Unknown, nil}, policy.Allowed: {egress.Allowed, nil},
	} {
		b := newBench(t, setup{config: egress.Config{Policy: allow("a.test")}, dns: map[string][][]string{"": {{"93.184.216.34"}}},
			tweak: func(o *Options) { o.Evaluator = j }})
		for method, source := range map[string]string{"GET": want, "DELETE": map[bool]string{true: policy.Method, false: want}[want == policy.Allowed]} {
			if v := b.srv.decide(t.Context(), ask{host: "b.test", port: 80, method: method, cleartext: true}); v.Source != source {
				t.Errorf("%+v, %s: %s, want %s", j, method, v.Source, source)
			}
		}
		if v := b.srv.decide(t.Context(), ask{host: "10.0.0.1", port: 80, method: "GET"}); v.Source != policy.PrivateIP {
			t.Errorf("%+v: the guard is replaced as well: %s", j, v.Source)
		}
	}
}

// rotating resolves a grant to a new value at each call.
type rotating struct {
	pendingControl
	mu    sync.Mutex
	n     int
	life  time.Duration
	fail  bool
	err   error
	value string
	host  string
}

func (r *rotating) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *rotating) Injection(context.Context, uuid.UUID) (egress.ResolvedInjection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail {
		return egress.ResolvedInjection{}, errors.New("away")
	}
	if r.err != nil {
		return egress.ResolvedInjection{}, r.err
	}
	r.n++
	value := r.value
	if value == "" {
		value = fmt.Sprintf("credential-%d", r.n)
	}
	out := egress.ResolvedInjection{Host: r.host, Header: "X-Key", Value: value}
	if r.life != 0 {
		out.ExpiresAt = time.Now().Add(r.life).UnixMilli()
	}
	return out, nil
}

func injectServer(t *testing.T, r *rotating) (*Server, error) {
	t.Helper()
	ca := newCA(t, "run CA")
	s, err := New(t.Context(), Options{Control: r, Config: egress.Config{
		RunID: testRun.String(), Policy: allow("api.test"), MITMCACertPEM: ca.pem.cert, MITMCAKeyPEM: ca.pem.key,
		Injection: []egress.InjectionGrant{{GrantID: uuid.New(), InjectionRule: egress.InjectionRule{Host: "api.test", Header: "X-Key"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	t.Cleanup(func() { s.Shutdown(ctx) })
	return s, s.Prepare(t.Context())
}

func TestP28CredentialIsRenewedEarly(t *testing.T) {
	for _, tt := range []struct {
		life time.Duration
		want string
	}{{0, "credential-1"}, {time.Hour, "credential-1"}, {4 * time.Minute, "credential-2"}} {
		r := &rotating{life: tt.life}
		s, err := injectServer(t, r)
		if err != nil {
			t.Fatal(err)
		}
		h, _ := egress.ParseHost("api.test")
		cred, err := s.credentialFor(t.Context(), egress.Authority{Host: h, Port: 443})
		if err != nil || cred == nil || cred.value != tt.want {
			t.Errorf("life %v: %+v, %v; want %s", tt.life, cred, err, tt.want)
		}
		if got := s.o.Mask.String("echo " + tt.want); strings.Contains(got, tt.want) {
			t.Errorf("the renewed value is not masked: %s", got)
		}
	}
}

func TestE104FailedRenewalFailsClosed(t *testing.T) {
	h, _ := egress.ParseHost("api.test")
	for life, ok := range map[time.Duration]bool{time.Minute: true, 10 * time.Millisecond: false} {
		r := &rotating{life: life}
		s, err := injectServer(t, r)
		if err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		r.fail = true
		r.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		if cred, err := s.credentialFor(t.Context(), egress.Authority{Host: h, Port: 443}); (err == nil) != ok || ok && cred.value != "credential-1" {
			t.Errorf("life %v: %+v, %v", life, cred, err)
		}
	}
}

// refusal is an answer of the control plane, which says no.
type refusal4xx struct{}

func (refusal4xx) Error() string { return "no such credential now" }
func (refusal4xx) Refused() bool { return true }

func TestCredentialsAreLookedAtAgain(t *testing.T) {
	h, _ := egress.ParseHost("api.test")
	at := egress.Authority{Host: h, Port: 443}
	r := &rotating{}
	s, err := injectServer(t, r)
	if err != nil {
		t.Fatal(err)
	}
	s.o.CredentialTrust = time.Nanosecond
	if cred, err := s.credentialFor(t.Context(), at); err != nil || cred.value != "credential-2" {
		t.Errorf("a changed secret: %+v, %v", cred, err)
	}
	r.set(errors.New("connection refused"))
	if cred, err := s.credentialFor(t.Context(), at); err != nil || cred.value != "credential-2" {
		t.Errorf("while the driver restarts: %+v, %v", cred, err)
	}
	r.set(refusal4xx{})
	if cred, err := s.credentialFor(t.Context(), at); err == nil {
		t.Errorf("a secret that is gone is sent: %+v", cred)
	}
}

func TestP27StartNeedsEveryCredential(t *testing.T) {
	for name, r := range map[string]*rotating{
		"control plane away": {fail: true}, "short value": {value: "short"}, "line break": {value: "long-enough\r\nX-Evil: 1"},
		"another host": {host: "other.test"}, "blank": {value: " "},
	} {
		if _, err := injectServer(t, r); err == nil {
			t.Errorf("%s: the start goes on", name)
		} else if strings.Contains(err.Error(), "long-enough") {
			t.Errorf("%s: the error holds the value: %v", name, err)
		}
	}
}

// TestE38ResolverTrouble: causes are told apart and waiting is bounded.
func TestE38ResolverTrouble(t *testing.T) {
	many := make([]string, maxAnswers+1)
	for i := range many {
		many[i] = fmt.Sprintf("93.184.%d.%d", i/256, i%256)
	}
	for name, tt := range map[string]struct {
		err   error
		lists [][]string
		cause string
	}{
		"no such name": {&net.DNSError{IsNotFound: true}, nil, "no such name"},
		"timeout":      {&net.DNSError{IsTimeout: true}, nil, "did not answer in time"},
		"server fails": {&net.DNSError{Err: "server misbehaving"}, nil, "failed"},
		"many answers": {nil, [][]string{many}, "more than"},
	} {
		res := &failingResolver{fakeResolver: fakeResolver{names: map[string][][]string{"": tt.lists}}, err: tt.err}
		b := newBench(t, setup{config: egress.Config{Policy: allow("a.test")}, tweak: func(o *Options) { o.Resolver = res }})
		r, body := b.exchange(t, "GET http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if r.StatusCode != 502 || !strings.Contains(body, policy.ResolveFailed) || !strings.Contains(body, tt.cause) {
			t.Errorf("%s: %s %s", name, r.Status, body)
		}
	}
}

type failingResolver struct {
	fakeResolver
	err error
}

func (r *failingResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.fakeResolver.LookupNetIP(ctx, network, host)
}

func TestE55DialTimeoutIs504(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow("a.test")}, dns: map[string][][]string{"a.test": {{"93.184.216.34"}}},
		tweak: func(o *Options) {
			o.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, context.DeadlineExceeded }
		}})
	for _, send := range []string{"GET http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT a.test:443 HTTP/1.1\r\n\r\n"} {
		if r, body := b.exchange(t, send); r.StatusCode != 504 || !strings.Contains(body, policy.DialFailed) || strings.Contains(body, "93.184") {
			t.Errorf("%s %s", r.Status, body)
		}
	}
}

// FuzzLocate holds the reading of an absolute target to a plain one: the host
// and port that are judged are between "://" and the first of "/?".
func FuzzLocate(f *testing.F) {
	for _, s := range []string{"http://a.test/", "HTTP://a.test:80?x", "http://a@b/", "http://[::1]:8/x", "//a/", "*", "http:///", "http://a.test:0443/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if target == "" {
			return
		}
		d, bad := locate(explicit, egress.Authority{}, h1Request(target))
		if bad != nil {
			return
		}
		rest := target[len("http://"):]
		authority := rest
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			authority = rest[:i]
		}
		want, err := egress.ParseAuthority(authority, 80)
		got, ruling := grammar(ask{host: d.host, port: d.port, method: "GET"})
		if (err == nil) != (ruling == nil) || err == nil && got != want {
			t.Fatalf("%q: judged as %v (%v), reads %v (%v)", target, got, ruling, want, err)
		}
		if !strings.HasPrefix(d.target, "/") || !strings.HasSuffix(rest, strings.TrimPrefix(d.target, "/")) {
			t.Fatalf("%q: goes upstream as %q", target, d.target)
		}
	})
}

func TestQuietIsCalledOncePerRest(t *testing.T) {
	n := 0
	r := restful{quiet: func() { n++ }}
	at := time.Now()
	step := func(busy bool, d time.Duration) { at = at.Add(d); r.note(at, busy) }
	step(false, time.Hour)
	step(false, time.Hour)
	if n != 0 {
		t.Error("called although nothing was ever open")
	}
	step(true, time.Second)
	step(false, time.Second)
	step(false, restAfter/2)
	step(true, time.Second)
	step(false, time.Second)
	step(false, restAfter)
	step(false, restAfter)
	step(false, restAfter)
	if n != 1 {
		t.Errorf("called %d times for one rest", n)
	}
}

// TestE36TheSocketIsCheckedOnceMore: the network's dialler refuses a blocked
// address even when it is handed one.
func TestE36TheSocketIsCheckedOnceMore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newBench(t, setup{config: egress.Config{Policy: allow("a.test")}, tweak: func(o *Options) { o.Dial = nil }})
	h, _ := egress.ParseHost("a.test")
	if c, err := b.srv.dialer(h)(t.Context(), netip.MustParseAddrPort(l.Addr().String())); err == nil {
		c.Close()
		t.Error("the dialler connects to loopback")
	}
}

func TestE122AFlowIsJudgedOnce(t *testing.T) {
	b := newBench(t, setup{config: egress.Config{Policy: allow()}})
	f := b.srv.newFlow(ask{host: "a.test", port: 443, method: "CONNECT"})
	f.verdict(policy.Ruling{Decision: egress.Deny, Source: policy.NotTLS}, 200)
	f.verdict(policy.Ruling{Decision: egress.Allow, Source: policy.Allowed}, 200)
	f.end(1, 2, "closed")
	if v, e := b.records.verdicts(), b.records.ends(); len(v) != 1 || v[0].RuleSource != policy.NotTLS || len(e) != 0 {
		t.Errorf("verdicts %+v, ends %+v", v, e)
	}
}
