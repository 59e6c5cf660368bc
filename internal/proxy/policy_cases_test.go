package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/approval"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

type policyCase struct {
	ID      string          `json:"id"`
	Policy  json.RawMessage `json:"policy"`
	Request struct {
		Host   string `json:"host"`
		Port   int    `json:"port"`
		Method string `json:"method"`
	} `json:"request"`
	DNS    *[]string `json:"dns"`
	Want   string    `json:"want"`
	Source string    `json:"source"`
	Why    string    `json:"why"`
}

// unresolved are the sources that must come before any query.
var unresolved = map[string]bool{
	"policy:default-deny": true, "policy:denied": true, "policy:method": true, "approval:pending": true,
	"builtin:bad-host": true, "builtin:bad-request": true,
}

func TestPolicyCases(t *testing.T) {
	eachCase(t, "policy-", func(t *testing.T, c policyCase) {
		answers := []string{"93.184.216.34"}
		if c.DNS != nil {
			answers = *c.DNS
		}
		res := &fakeResolver{names: map[string][][]string{"": {answers}}}
		decision, source := judgeCase(t, c, res)
		if decision != c.Want || source != c.Source {
			t.Errorf("got %s %s, want %s %s (%s)", decision, source, c.Want, c.Source, c.Why)
		}
		if unresolved[c.Source] && res.queries() > 0 {
			t.Errorf("the resolver was asked although the source is %s", c.Source)
		}
	})
}

func judgeCase(t *testing.T, c policyCase, res *fakeResolver) (decision, source string) {
	t.Helper()
	var spec types.RunPolicySpec
	d := json.NewDecoder(bytes.NewReader(c.Policy))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return "deny", "policy:invalid"
	}
	cfg := egress.Config{RunID: testRun.String(), RunToken: "t", ControlPlaneURL: "http://control", Policy: spec}
	s, err := New(t.Context(), Options{Config: cfg, Resolver: res, Control: pendingControl{}})
	if err != nil {
		return "deny", "policy:invalid"
	}
	s.book = approval.NewBook(approval.Options{RunID: testRun, Client: pendingControl{}, Mode: spec.FirstUseApproval,
		Hold: time.Nanosecond, Logger: s.log}) // nobody is held
	v := s.decide(t.Context(), ask{host: c.Request.Host, port: c.Request.Port, method: c.Request.Method, cleartext: c.Request.Method != "CONNECT"})
	return string(v.Decision), v.Source
}

var testRun = uuid.MustParse("5f3b6a50-7d07-4f4e-8f4e-3a8f6f7d9a01")

// fakeResolver answers from lists; the entry "" answers for every name.
type fakeResolver struct {
	mu    sync.Mutex
	names map[string][][]string
	n     int
}

func (r *fakeResolver) queries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func (r *fakeResolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	name := strings.TrimSuffix(host, ".")
	lists, ok := r.names[name]
	if !ok {
		if lists, ok = r.names[""]; !ok {
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
	}
	var out []netip.Addr
	for _, a := range lists[0] {
		out = append(out, netip.MustParseAddr(a))
	}
	if len(lists) > 1 {
		r.names[name] = lists[1:]
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return out, nil
}

// pendingControl raises every approval and decides none.
type pendingControl struct{}

func (pendingControl) Raise(context.Context, uuid.UUID, egress.ApprovalScope) (egress.ApprovalRequest, error) {
	return egress.ApprovalRequest{ID: uuid.New(), State: egress.ApprovalPending}, nil
}

func (pendingControl) Approval(_ context.Context, id uuid.UUID) (egress.ApprovalRequest, error) {
	return egress.ApprovalRequest{ID: id, State: egress.ApprovalPending}, nil
}

func (pendingControl) Injection(context.Context, uuid.UUID) (egress.ResolvedInjection, error) {
	return egress.ResolvedInjection{}, errors.New("no injection here")
}

func (pendingControl) Do(context.Context, string, string, io.Reader, string, int64) (*http.Response, error) {
	return nil, errors.New("nothing to forward to")
}

func (pendingControl) Mint(context.Context, uuid.UUID) (egress.MintedCredential, error) {
	return egress.MintedCredential{}, errors.New("nothing to mint")
}
