package approval

import (
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// idle ends the call under way; the caller holds the lock.
func (st *state) idle() {
	close(st.busy)
	st.busy = nil
}

// stale reports whether a state is to be read again. A refusal is final.
func (st *state) stale(pendingTrust, approvedTrust time.Duration) bool {
	switch st.approval {
	case policy.Pending:
		return st.id != nil && time.Since(st.checked) >= pendingTrust
	case policy.Approved:
		return time.Since(st.checked) >= approvedTrust
	}
	return false
}

// settle enters an answer. An approval that expired is forgotten: it is no
// denial, and the host may be raised again.
func (b *Book) settle(a egress.Authority, st *state, got egress.ApprovalRequest) (policy.Approval, *uuid.UUID) {
	id := got.ID
	st.id, st.checked = &id, time.Now()
	switch got.State {
	case egress.ApprovalApproved:
		b.set(st, policy.Approved)
	case egress.ApprovalDenied:
		b.set(st, policy.Refused)
	case egress.ApprovalExpired:
		b.forget(a, st)
		return policy.Pending, nil
	default:
		b.set(st, policy.Pending)
	}
	return st.approval, st.id
}

// set changes a state and keeps count of the pending ones.
func (b *Book) set(st *state, to policy.Approval) {
	if st.approval == policy.Pending {
		b.pending--
	}
	if to == policy.Pending {
		b.pending++
	}
	st.approval = to
}

func (b *Book) forget(a egress.Authority, st *state) {
	b.set(st, policy.Unasked)
	delete(b.states, a)
}
