package control

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// External is somebody else's control plane, by the paths of package egress.
// Sidecars never speak to it themselves: this server does, and keeps its own
// files of what it carries.
type External interface {
	// Raise asks for an approval of egress to a host and port.
	Raise(ctx context.Context, run uuid.UUID, scope egress.ApprovalScope) (egress.ApprovalRequest, error)
	// Approval reads what became of one.
	Approval(ctx context.Context, run, id uuid.UUID) (egress.ApprovalRequest, error)
	// Decisions delivers one record and returns nil once it is taken.
	Decisions(ctx context.Context, run uuid.UUID, record []byte) error
}

// externalTimeout bounds one call; a sidecar waits no longer for its answer.
const externalTimeout = 8 * time.Second

// raiseExternal has an approval raised elsewhere and keeps a copy of it.
func (r *run) raiseExternal(w http.ResponseWriter, host string, in raised) {
	ctx, cancel := context.WithTimeout(context.Background(), externalTimeout)
	defer cancel()
	in.Scope.Host = host
	got, err := r.opts.External.Raise(ctx, r.id, in.Scope)
	if err != nil {
		r.log.Error("the control plane raised no approval", "host", host, "error", err)
		refuse(w, http.StatusServiceUnavailable, "not raised; try again later")
		return
	}
	a := Approval{ID: got.ID, RunID: r.id, Host: host, Port: in.Scope.Port, Mode: in.Scope.Mode, RequestedAt: got.RequestedAt}
	r.copyExternal(a, got)
	answer(w, got)
}

// approvalExternal reads an approval of this run elsewhere.
func (r *run) approvalExternal(w http.ResponseWriter, a Approval) {
	ctx, cancel := context.WithTimeout(context.Background(), externalTimeout)
	defer cancel()
	got, err := r.opts.External.Approval(ctx, r.id, a.ID)
	if err != nil {
		r.log.Warn("the control plane does not say what became of an approval", "approval", a.ID, "error", err)
		refuse(w, http.StatusServiceUnavailable, "not known; try again later")
		return
	}
	r.copyExternal(a, got)
	answer(w, got)
}

// copyExternal keeps what the control plane says, and tells of a change.
func (r *run) copyExternal(a Approval, got egress.ApprovalRequest) {
	if a.RequestedAt.IsZero() {
		a.RequestedAt = time.Now().UTC()
	}
	changed := a.State != got.State
	a.State, a.DecidedBy, a.Note = got.State, got.DecidedBy, got.Reason
	if got.DecidedAt != nil {
		a.DecidedAt = *got.DecidedAt
	}
	if !changed {
		return
	}
	if err := r.approvals.put(a); err != nil {
		r.log.Error("approval not kept", "approval", a.ID, "error", err)
	}
	r.tellApproval(a)
}

// put keeps an approval in the place of the one with its id.
func (a *approvals) put(x Approval) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.IndexFunc(a.list, func(old Approval) bool { return old.ID == x.ID }); i >= 0 {
		list := slices.Clone(a.list)
		list[i] = x
		return a.replace(list)
	}
	return a.replace(append(a.room(x.RunID), x))
}

// forward delivers a record elsewhere, once and one at a time.
func (r *run) forward(key string, l egress.DecisionLog) error {
	if r.opts.External == nil {
		return nil
	}
	r.away.Lock()
	defer r.away.Unlock()
	if r.forwarded.has(key) {
		return nil
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), externalTimeout)
	defer cancel()
	if err := r.opts.External.Decisions(ctx, r.id, b); err != nil {
		return err
	}
	r.forwarded.add(key)
	return nil
}
