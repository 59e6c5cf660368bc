package control

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Scope is how far an approval reaches.
type Scope string

const (
	// ScopeSession holds for the session: this task of this allocation, also
	// when it is restarted.
	ScopeSession Scope = "session"
	// ScopeAttempt holds until this attempt of the task ends.
	ScopeAttempt Scope = "attempt"
)

// pendingLife is how long a question stays open. One that nobody answered is
// no denial: it may be raised again.
const pendingLife = time.Hour

// Approval is the first use of a host and port that policy does not list, and
// what a reviewer said of it. It covers exactly that host and port.
type Approval struct {
	ID    uuid.UUID            `json:"id"`
	RunID uuid.UUID            `json:"run_id"` // the attempt that raised it
	Host  string               `json:"host"`
	Port  int                  `json:"port"`
	Mode  types.FirstUseMode   `json:"mode"`
	State egress.ApprovalState `json:"state"`

	RequestedAt time.Time `json:"requested_at"`
	DecidedAt   time.Time `json:"decided_at,omitzero"`
	// DecidedBy is what is known of who decided, Note what that person says.
	DecidedBy string `json:"decided_by,omitempty"`
	Note      string `json:"note,omitempty"`
	Scope     Scope  `json:"scope,omitempty"`
	// Until ends an approval; zero does not.
	Until time.Time `json:"until,omitzero"`
	// Revoked: it was approved before.
	Revoked bool `json:"revoked,omitempty"`
	// Earlier are the decisions that this one took the place of, oldest first, and
	// of many the latest.
	Earlier []Decided `json:"earlier,omitempty"`
}

// Decided is one decision about an approval, as the fields of the same names.
type Decided struct {
	State     egress.ApprovalState `json:"state"`
	DecidedAt time.Time            `json:"decided_at"`
	DecidedBy string               `json:"decided_by,omitempty"`
	Note      string               `json:"note,omitempty"`
	Scope     Scope                `json:"scope,omitempty"`
	Until     time.Time            `json:"until,omitzero"`
}

// maxEarlier bounds what is kept of somebody who decides again and again.
const maxEarlier = 16

// remember is the approval with its decision among the earlier ones.
func (a Approval) remember() Approval {
	if a.State == egress.ApprovalPending {
		return a
	}
	d := Decided{a.State, a.DecidedAt, a.DecidedBy, a.Note, a.Scope, a.Until}
	a.Earlier = append(slices.Clone(a.Earlier[max(0, len(a.Earlier)+1-maxEarlier):]), d)
	return a
}

// at is the approval as it stands at a time, for an attempt of its session.
func (a Approval) at(now time.Time, run uuid.UUID) Approval {
	switch {
	case a.State == egress.ApprovalPending && now.Sub(a.RequestedAt) > pendingLife,
		a.State == egress.ApprovalApproved && !a.Until.IsZero() && now.After(a.Until),
		a.State == egress.ApprovalApproved && a.Scope == ScopeAttempt && a.RunID != run:
		a.State = egress.ApprovalExpired
	}
	return a
}

// request is the approval as it travels to the sidecar.
func (a Approval) request(run uuid.UUID, scope []byte) egress.ApprovalRequest {
	out := egress.ApprovalRequest{
		ID: a.ID, RunID: run, Kind: kindEgress, RequestedScope: scope, State: a.State,
		RequestedAt: a.RequestedAt, DecidedBy: a.DecidedBy,
	}
	if !a.DecidedAt.IsZero() {
		out.DecidedAt = &a.DecidedAt
	}
	return out
}

// kindEgress is the kind of approvals that a sidecar raises.
const kindEgress = "egress_domain"

// Ruling is a reviewer's word on an approval.
type Ruling struct {
	// To is the new state: approved, or denied, which also takes an approval back.
	To egress.ApprovalState
	// Scope of an approval; "" is ScopeSession.
	Scope Scope
	// For is how long an approval holds; 0 has no end.
	For time.Duration
	// By is what is known of who says so, Note a claim of theirs.
	By, Note string
}
