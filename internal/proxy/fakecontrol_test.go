package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// fakeControl is a control plane that leaves approvals pending, resolves every
// injection and counts the calls that matter.
type fakeControl struct {
	srv    *httptest.Server
	client *controlplane.Client
	rules  map[uuid.UUID]egress.InjectionGrant

	mu     sync.Mutex
	called []string
}

func newFakeControl(t testing.TB, grants []egress.InjectionGrant) *fakeControl {
	t.Helper()
	f := &fakeControl{rules: map[uuid.UUID]egress.InjectionGrant{}}
	for _, g := range grants {
		f.rules[g.GrantID] = g
	}
	f.srv = httptest.NewServer(f)
	t.Cleanup(f.srv.Close)
	client, err := controlplane.New(f.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	client.SetToken("run-token-0123456789")
	f.client = client
	return f
}

func (f *fakeControl) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer run-token-0123456789" {
		http.Error(w, "no token", http.StatusUnauthorized)
		return
	}
	if id, ok := strings.CutPrefix(r.URL.Path, egress.PathInjection+"/"); ok {
		g := f.rules[uuid.MustParse(id)]
		json.NewEncoder(w).Encode(egress.ResolvedInjection{Host: g.Host, Header: g.Header, Value: "Bearer test-secret-0123456789"})
		return
	}
	if r.URL.Path == egress.PathDecisions || r.URL.Path == egress.PathRenew {
		io.WriteString(w, "{}")
		return
	}
	f.mu.Lock()
	f.called = append(f.called, r.Method+" "+r.URL.Path)
	f.mu.Unlock()
	switch {
	case r.URL.Path == egress.PathApprovals && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(egress.ApprovalRequest{ID: uuid.New(), Kind: "egress_domain", State: egress.ApprovalPending})
	case strings.HasPrefix(r.URL.Path, egress.PathApprovals+"/"):
		json.NewEncoder(w).Encode(egress.ApprovalRequest{ID: uuid.New(), Kind: "egress_domain", State: egress.ApprovalPending})
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeControl) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.called...)
}

// records is a sink that keeps everything.
type records struct {
	mu  sync.Mutex
	all []egress.DecisionLog
}

func (r *records) Record(d egress.DecisionLog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
}

// verdicts returns the verdict records; end records do not count.
func (r *records) verdicts() []egress.DecisionLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []egress.DecisionLog
	for _, d := range r.all {
		if d.Flow == nil || d.Flow.Kind == "decision" {
			out = append(out, d)
		}
	}
	return out
}

// ends returns the end records.
func (r *records) ends() []egress.DecisionLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []egress.DecisionLog
	for _, d := range r.all {
		if d.Flow != nil && d.Flow.Kind == "end" {
			out = append(out, d)
		}
	}
	return out
}
