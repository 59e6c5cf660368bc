package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// reviewer is a control plane whose decisions the test makes.
type reviewer struct {
	mu     sync.Mutex
	raised []egress.ApprovalScope
	polls  int
	states map[uuid.UUID]egress.ApprovalState
	fail   error
}

func (r *reviewer) Raise(_ context.Context, run uuid.UUID, s egress.ApprovalScope) (egress.ApprovalRequest, error) {
	time.Sleep(10 * time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return egress.ApprovalRequest{}, r.fail
	}
	r.raised = append(r.raised, s)
	id := uuid.New()
	r.states[id] = egress.ApprovalPending
	return egress.ApprovalRequest{ID: id, RunID: run, State: egress.ApprovalPending}, nil
}

func (r *reviewer) Approval(_ context.Context, id uuid.UUID) (egress.ApprovalRequest, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polls++
	if r.fail != nil {
		return egress.ApprovalRequest{}, r.fail
	}
	return egress.ApprovalRequest{ID: id, State: r.states[id]}, nil
}

func (r *reviewer) decide(s egress.ApprovalState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.states {
		r.states[id] = s
	}
}

func (r *reviewer) broken(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

func (r *reviewer) count() (raised, polls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.raised), r.polls
}

func newBook(mode types.FirstUseMode) (*Book, *reviewer) {
	r := &reviewer{states: map[uuid.UUID]egress.ApprovalState{}}
	return NewBook(Options{RunID: uuid.New(), Client: r, Mode: mode, Logger: slog.New(slog.DiscardHandler)}), r
}

func auth(t testing.TB, host string, port uint16) egress.Authority {
	t.Helper()
	h, err := egress.ParseHost(host)
	if err != nil {
		t.Fatal(err)
	}
	return egress.Authority{Host: h, Port: port}
}

func TestP39ScopeHasHostPortAndMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.DenyWithReview)
		if ap, id := b.Ask(t.Context(), auth(t, "new.test", 8443)); ap != policy.Pending || id == nil {
			t.Errorf("got %v, %v", ap, id)
		}
		if want := (egress.ApprovalScope{Host: "new.test", Port: 8443, Mode: types.DenyWithReview}); len(r.raised) != 1 || r.raised[0] != want {
			t.Errorf("raised %v", r.raised)
		}
	})
}

func TestB43ConcurrentFirstUsesRaiseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.DenyWithReview)
		var wg sync.WaitGroup
		for range 20 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if ap, id := b.Ask(t.Context(), auth(t, "new.test", 443)); ap != policy.Pending || id == nil {
					t.Errorf("got %v, %v", ap, id)
				}
			}()
		}
		wg.Wait()
		if n, _ := r.count(); n != 1 {
			t.Errorf("%d approvals raised", n)
		}
	})
}

func TestE113ApprovalIsForOnePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.DenyWithReview)
		b.Ask(t.Context(), auth(t, "new.test", 443))
		r.decide(egress.ApprovalApproved)
		time.Sleep(pollPending)
		if ap, _ := b.Ask(t.Context(), auth(t, "new.test", 443)); ap != policy.Approved {
			t.Errorf("443: %v", ap)
		}
		if ap, _ := b.Ask(t.Context(), auth(t, "new.test", 22)); ap != policy.Pending {
			t.Errorf("22: %v", ap)
		}
	})
}

func TestP41PollingAndTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.DenyWithReview)
		a := auth(t, "new.test", 443)
		for range 10 {
			b.Ask(t.Context(), a)
		}
		if _, polls := r.count(); polls != 0 {
			t.Errorf("%d polls within 2 s", polls)
		}
		r.decide(egress.ApprovalApproved)
		time.Sleep(pollPending)
		for range 10 {
			if ap, _ := b.Ask(t.Context(), a); ap != policy.Approved {
				t.Fatalf("got %v", ap)
			}
		}
		if _, polls := r.count(); polls != 1 {
			t.Errorf("%d polls, want 1", polls)
		}
		r.decide(egress.ApprovalDenied) // B44: revoked
		time.Sleep(trustApproved)
		if ap, _ := b.Ask(t.Context(), a); ap != policy.Refused {
			t.Errorf("after revocation: %v", ap)
		}
		r.decide(egress.ApprovalApproved)
		time.Sleep(time.Hour)
		if ap, _ := b.Ask(t.Context(), a); ap != policy.Refused {
			t.Errorf("a denial is final for the run: %v", ap)
		}
	})
}

func TestE115ExpiredIsNoDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.DenyWithReview)
		a := auth(t, "new.test", 443)
		b.Ask(t.Context(), a)
		r.decide(egress.ApprovalExpired)
		time.Sleep(pollPending)
		b.Ask(t.Context(), a)
		if ap, id := b.Ask(t.Context(), a); ap != policy.Pending || id == nil {
			t.Errorf("got %v, %v", ap, id)
		}
		if n, _ := r.count(); n != 2 {
			t.Errorf("%d approvals raised, want a second one", n)
		}
	})
}

func TestFailedCallsKeepState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.DenyWithReview)
		a := auth(t, "new.test", 443)
		r.broken(errors.New("away"))
		if ap, id := b.Ask(t.Context(), a); ap != policy.Pending || id != nil {
			t.Errorf("failed raise: %v, %v", ap, id)
		}
		r.broken(nil)
		b.Ask(t.Context(), a)
		r.decide(egress.ApprovalApproved)
		time.Sleep(pollPending)
		b.Ask(t.Context(), a)
		r.broken(errors.New("away"))
		time.Sleep(trustApproved)
		if ap, _ := b.Ask(t.Context(), a); ap != policy.Approved { // E120
			t.Errorf("an approval does not outlive a failed poll: %v", ap)
		}
	})
}

func TestE114HoldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.WaitForReview)
		start := time.Now()
		if ap, id := b.Ask(t.Context(), auth(t, "new.test", 443)); ap != policy.Pending || id == nil {
			t.Errorf("got %v, %v", ap, id)
		}
		if d := time.Since(start); d < DefaultHold || d > DefaultHold+time.Second {
			t.Errorf("held for %v", d)
		}
		go func() { time.Sleep(3 * time.Second); r.decide(egress.ApprovalApproved) }()
		start = time.Now()
		if ap, _ := b.Ask(t.Context(), auth(t, "other.test", 443)); ap != policy.Approved {
			t.Errorf("got %v", ap)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("an approval was noticed after %v", d)
		}
	})
}

func TestP43HoldsAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBook(types.WaitForReview)
		var wg sync.WaitGroup
		for i := range DefaultHolds {
			wg.Add(1)
			go func() { defer wg.Done(); b.Ask(t.Context(), auth(t, fmt.Sprintf("h%d.test", i), 443)) }()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		start := time.Now()
		if ap, _ := b.Ask(t.Context(), auth(t, "late.test", 443)); ap != policy.Pending {
			t.Errorf("got %v", ap)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("one more than the cap was held for %v", d)
		}
		wg.Wait()
	})
}

// TestE112FloodIsBounded: random names exhaust neither memory nor reviewers.
func TestE112FloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.DenyWithReview)
		excess := 0
		for i := range 100_000 {
			if ap, _ := b.Ask(t.Context(), auth(t, fmt.Sprintf("h%d.test", i), 443)); ap == policy.Unasked {
				excess++
			}
		}
		n, _ := r.count()
		if n > maxPending || len(b.states) > maxStates || excess != 100_000-n {
			t.Errorf("%d raised, %d states, %d plain misses", n, len(b.states), excess)
		}
	})
}

func TestDecidedStatesAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := newBook(types.DenyWithReview)
		for i := range maxStates + 50 {
			a := auth(t, fmt.Sprintf("h%d.test", i), 443)
			b.Ask(t.Context(), a)
			r.decide(egress.ApprovalApproved)
			time.Sleep(pollPending)
			b.Ask(t.Context(), a)
		}
		if len(b.states) > maxStates || b.pending != 0 {
			t.Errorf("%d states, %d pending", len(b.states), b.pending)
		}
	})
}

// A state that is being read anew is not evicted: what is read of it would be
// counted and never taken off again.
func TestBusyStatesAreNotEvicted(t *testing.T) {
	b, r := newBook(types.DenyWithReview)
	first := auth(t, "first.test", 443)
	b.mu.Lock()
	st := b.claim(first)
	b.settle(first, st, egress.ApprovalRequest{ID: uuid.New(), State: egress.ApprovalApproved})
	for i := range maxStates - 1 { // all of them looked at later
		a := auth(t, fmt.Sprintf("h%d.test", i), 443)
		later := b.claim(a)
		later.idle()
		b.settle(a, later, egress.ApprovalRequest{ID: uuid.New(), State: egress.ApprovalApproved})
	}
	// The first is busy since its claim: a poll is under way, which finds it pending again.
	b.claim(auth(t, "new.test", 443))
	b.mu.Unlock()
	r.decide(egress.ApprovalPending)
	b.poll(t.Context(), first, st)
	pending := 0
	for _, st := range b.states {
		if st.approval == policy.Pending {
			pending++
		}
	}
	if b.pending != pending || len(b.states) > maxStates {
		t.Errorf("%d pending are counted and %d there, of %d", b.pending, pending, len(b.states))
	}
}
