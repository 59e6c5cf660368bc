// Package approval keeps what reviewers said about hosts that policy does not
// list: one approval for each host and port, raised once, polled seldom,
// trusted for a while, and bounded in number whatever a sandbox asks for.
package approval

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Client raises approvals and reads what became of them.
type Client interface {
	Raise(ctx context.Context, run uuid.UUID, scope egress.ApprovalScope) (egress.ApprovalRequest, error)
	Approval(ctx context.Context, id uuid.UUID) (egress.ApprovalRequest, error)
}

// Times and bounds.
const (
	pollPending   = 2 * time.Second
	trustApproved = 60 * time.Second
	holdPoll      = time.Second
	callTimeout   = 10 * time.Second
	DefaultHold   = 8 * time.Second
	DefaultHolds  = 16
	maxPending    = 64
	maxStates     = 1024
	raiseEvery    = time.Second
	raiseBurst    = 20
)

// Options make a Book.
type Options struct {
	RunID    uuid.UUID
	Client   Client
	Mode     types.FirstUseMode
	Hold     time.Duration // how long a request waits; 0 means DefaultHold
	MaxHolds int           // requests that wait at once; 0 means DefaultHolds
	Trust    time.Duration // how long an approval holds before it is read again; 0 means a minute
	Logger   *slog.Logger
}

// Book holds the state of every host and port that was asked for.
type Book struct {
	o     Options
	holds chan struct{}
	rate  *rate.Limiter

	mu      sync.Mutex
	states  map[egress.Authority]*state
	pending int
}

type state struct {
	approval policy.Approval
	id       *uuid.UUID
	checked  time.Time
	busy     chan struct{} // closed when the call under way is done
}

// NewBook returns an empty book.
func NewBook(o Options) *Book {
	if o.Hold <= 0 {
		o.Hold = DefaultHold
	}
	if o.MaxHolds <= 0 {
		o.MaxHolds = DefaultHolds
	}
	if o.Trust <= 0 {
		o.Trust = trustApproved
	}
	return &Book{
		o: o, holds: make(chan struct{}, o.MaxHolds),
		rate:   rate.NewLimiter(rate.Every(raiseEvery), raiseBurst),
		states: map[egress.Authority]*state{},
	}
}

// Ask returns what is known of a host and port, raising an approval if nobody
// did yet. In wait_for_review it holds the request for a bounded time. It
// returns policy.Unasked when too many approvals are open already: the request
// is then a plain miss.
func (b *Book) Ask(ctx context.Context, a egress.Authority) (policy.Approval, *uuid.UUID) {
	ap, id := b.step(ctx, a)
	if ap != policy.Pending || id == nil || b.o.Mode != types.WaitForReview {
		return ap, id
	}
	select {
	case b.holds <- struct{}{}:
		defer func() { <-b.holds }()
	default:
		return ap, id
	}
	deadline := time.NewTimer(b.o.Hold)
	defer deadline.Stop()
	tick := time.NewTicker(holdPoll)
	defer tick.Stop()
	for ap == policy.Pending {
		select {
		case <-tick.C:
			ap, id = b.check(ctx, a, 0)
		case <-deadline.C:
			return ap, id
		case <-ctx.Done():
			return ap, id
		}
	}
	return ap, id
}

func (b *Book) step(ctx context.Context, a egress.Authority) (policy.Approval, *uuid.UUID) {
	b.mu.Lock()
	if _, known := b.states[a]; !known {
		if b.pending >= maxPending || !b.rate.Allow() {
			b.mu.Unlock()
			return policy.Unasked, nil
		}
		st := b.claim(a)
		b.mu.Unlock()
		return b.raise(ctx, a, st)
	}
	b.mu.Unlock()
	return b.check(ctx, a, pollPending)
}

// Known returns what is known of a host and port, and raises nothing.
func (b *Book) Known(ctx context.Context, a egress.Authority) (policy.Approval, *uuid.UUID) {
	b.mu.Lock()
	_, known := b.states[a]
	b.mu.Unlock()
	if !known {
		return policy.Unasked, nil
	}
	if ap, id := b.check(ctx, a, pollPending); id != nil {
		return ap, id
	}
	return policy.Unasked, nil // it has expired, or was never raised
}

// Refresh reads an approval anew that something open depends on.
func (b *Book) Refresh(ctx context.Context, a egress.Authority) policy.Approval {
	b.mu.Lock()
	st, known := b.states[a]
	if !known {
		b.mu.Unlock()
		return policy.Unasked
	}
	if st.approval != policy.Approved || st.busy != nil {
		defer b.mu.Unlock()
		return st.approval
	}
	st.busy = make(chan struct{})
	b.mu.Unlock()
	ap, _ := b.poll(ctx, a, st)
	return ap
}

// claim enters a pending state under the lock, so that requests that come
// together raise one approval.
func (b *Book) claim(a egress.Authority) *state {
	if len(b.states) >= maxStates {
		b.evict()
	}
	st := &state{approval: policy.Pending, busy: make(chan struct{})}
	b.states[a] = st
	b.pending++
	return st
}

// evict drops the decided state that was looked at longest ago. One that is being
// read anew stays: its answer is yet to be entered.
func (b *Book) evict() {
	var oldest egress.Authority
	var at time.Time
	for a, st := range b.states {
		if st.approval != policy.Pending && st.busy == nil && (at.IsZero() || st.checked.Before(at)) {
			oldest, at = a, st.checked
		}
	}
	delete(b.states, oldest)
}

func (b *Book) raise(ctx context.Context, a egress.Authority, st *state) (policy.Approval, *uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	got, err := b.o.Client.Raise(ctx, b.o.RunID, egress.ApprovalScope{Host: a.Host.String(), Port: int(a.Port), Mode: b.o.Mode})
	b.mu.Lock()
	defer b.mu.Unlock()
	st.idle()
	if err != nil {
		b.o.Logger.Warn("approval not raised", "host", a.String(), "error", err)
		b.forget(a, st)
		return policy.Pending, nil
	}
	return b.settle(a, st, got)
}

// check polls a known state that is older than its trust, and returns it.
func (b *Book) check(ctx context.Context, a egress.Authority, pendingTrust time.Duration) (policy.Approval, *uuid.UUID) {
	b.mu.Lock()
	st, known := b.states[a]
	if !known {
		b.mu.Unlock()
		return policy.Pending, nil
	}
	if busy := st.busy; busy != nil {
		b.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return st.approval, st.id
	}
	if !st.stale(pendingTrust, b.o.Trust) {
		defer b.mu.Unlock()
		return st.approval, st.id
	}
	st.busy = make(chan struct{})
	b.mu.Unlock()
	return b.poll(ctx, a, st)
}

func (b *Book) poll(ctx context.Context, a egress.Authority, st *state) (policy.Approval, *uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	got, err := b.o.Client.Approval(ctx, *st.id)
	b.mu.Lock()
	defer b.mu.Unlock()
	st.idle()
	if err != nil { // availability: the last known state stays
		b.o.Logger.Warn("approval not read", "host", a.String(), "error", err)
		st.checked = time.Now()
		return st.approval, st.id
	}
	return b.settle(a, st, got)
}
