package control

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// elsewhere stands in for somebody's control plane and checks the calls.
type elsewhere struct {
	t *testing.T

	mu    sync.Mutex
	calls []string
	id    uuid.UUID
	state egress.ApprovalState
	down  bool
}

func (e *elsewhere) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if got := r.Header.Get("Authorization"); got != "Bearer node-token" {
		e.t.Errorf("Authorization %q", got)
	}
	if e.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	e.calls = append(e.calls, r.Method+" "+r.URL.Path)
	switch {
	case r.Method == "POST" && r.URL.Path == egress.PathDecisions:
		var l egress.DecisionLog
		if err := json.Unmarshal(body, &l); err != nil || l.Request.Host != "b.example" || strings.Contains(string(body), "a-masked-secret") {
			e.t.Errorf("record %s, %v", body, err)
		}
	case r.Method == "POST" && r.URL.Path == egress.PathApprovals:
		var in raised
		if err := json.Unmarshal(body, &in); err != nil || in.Kind != kindEgress || in.RunID == uuid.Nil || in.Scope.Host != "new.example" || in.Scope.Port != 443 {
			e.t.Errorf("raised %s, %v", body, err)
		}
		fallthrough
	case r.URL.Path == egress.PathApprovals+"/"+e.id.String():
		json.NewEncoder(w).Encode(egress.ApprovalRequest{ID: e.id, State: e.state, DecidedBy: "somebody"})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (e *elsewhere) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// anyRun calls the control plane in the same way for every run.
type anyRun struct{ *controlplane.Client }

func (c anyRun) Approval(ctx context.Context, _, id uuid.UUID) (egress.ApprovalRequest, error) {
	return c.Client.Approval(ctx, id)
}

func (c anyRun) Decisions(ctx context.Context, _ uuid.UUID, record []byte) error {
	return c.Client.Decisions(ctx, record)
}

func TestP39ExternalControlPlane(t *testing.T) {
	b, id := newBench(t), uuid.New()
	e := &elsewhere{t: t, id: uuid.New(), state: egress.ApprovalPending}
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	ext, err := controlplane.New(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	ext.SetToken("node-token")
	b.Server = New(Options{Dir: b.dir, External: anyRun{ext}, Log: slog.New(slog.DiscardHandler)})
	var told []egress.ApprovalState
	c := b.openReview(t, id, filesDir(t), func(a Approval) { told = append(told, a.State) })
	if a := raise(t, c, id, "New.example", 443); a.ID != e.id || a.State != egress.ApprovalPending {
		t.Errorf("%+v", a)
	}
	if _, err := b.Decide(id, "new.example:443", deny); err == nil {
		t.Error("decided here as well")
	}
	e.set(func() { e.state = egress.ApprovalApproved })
	for range 2 {
		if got := state(t, c, e.id); got != egress.ApprovalApproved {
			t.Errorf("approved: %s", got)
		}
	}
	if list := b.Approvals(id); len(list) != 1 || list[0].DecidedBy != "somebody" || list[0].Host != "new.example" {
		t.Errorf("the copy: %+v", list)
	}
	if want := []egress.ApprovalState{egress.ApprovalPending, egress.ApprovalApproved}; !slices.Equal(told, want) {
		t.Errorf("told %v", told)
	}

	// Records are delivered once, and held back while nobody takes them.
	e.set(func() { e.down = true })
	if err := c.Decisions(t.Context(), encode(t, decision(id, 1))); err == nil {
		t.Error("acknowledged, and not delivered")
	}
	e.set(func() { e.down = false })
	for range 2 {
		post(t, c, decision(id, 1))
	}
	n := 0
	for _, call := range e.calls {
		if call == "POST "+egress.PathDecisions {
			n++
		}
	}
	if sum, _ := b.Summary(id); n != 1 || sum.Denied != 1 {
		t.Errorf("delivered %d times, counted %d", n, sum.Denied)
	}
}

// What the control plane says of an approval takes nothing else's place.
func TestK34CopiesPushNothingOut(t *testing.T) {
	var a approvals
	run := uuid.New()
	for range maxApprovals {
		if err := a.put(Approval{ID: uuid.New(), RunID: run, State: egress.ApprovalDenied}); err != nil {
			t.Fatal(err)
		}
	}
	first, last := a.list[0], a.list[maxApprovals-1]
	last.State = egress.ApprovalApproved
	if err := a.put(last); err != nil {
		t.Fatal(err)
	}
	if len(a.list) != maxApprovals || a.list[0].ID != first.ID || a.list[maxApprovals-1].State != egress.ApprovalApproved {
		t.Errorf("%d kept, the first of them %v", len(a.list), a.list[0].ID)
	}
}

// hanging is a control plane that takes a record and does not answer.
type hanging struct {
	External
	asked, release chan struct{}
}

func (h *hanging) Decisions(context.Context, uuid.UUID, []byte) error {
	close(h.asked)
	<-h.release
	return nil
}

// Credentials, counts and events of a run do not wait for a control plane.
func TestP39NothingWaitsForADelivery(t *testing.T) {
	h := &hanging{asked: make(chan struct{}), release: make(chan struct{})}
	id := uuid.New()
	r := newRun(&Options{External: h, Log: slog.New(slog.DiscardHandler)}, id)
	delivered := make(chan error, 1)
	go func() { delivered <- r.record(decision(id, 1)) }()
	<-h.asked
	free := make(chan struct{})
	go func() {
		r.credential(uuid.New(), true)
		r.hide("a-masked-secret")
		r.summary()
		close(free)
	}()
	select {
	case <-free:
	case <-time.After(time.Minute):
		t.Error("the run waits for its control plane")
	}
	close(h.release)
	if err := <-delivered; err != nil {
		t.Error(err)
	}
}
