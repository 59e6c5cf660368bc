package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// raised is what a sidecar sends to raise an approval.
type raised struct {
	RunID uuid.UUID            `json:"run_id"`
	Kind  string               `json:"kind"`
	Scope egress.ApprovalScope `json:"requested_scope"`
}

// serveRaise opens an approval, or answers with the one there is: a sidecar
// that was restarted asks again.
func (r *run) serveRaise(w http.ResponseWriter, q query) {
	var in raised
	if err := json.Unmarshal(q.body, &in); err != nil {
		refuse(w, http.StatusBadRequest, "not an approval request: "+err.Error())
		return
	}
	host, err := r.mayRaise(in)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	if r.opts.External != nil {
		r.raiseExternal(w, host, in)
		return
	}
	a, fresh, err := r.approvals.raise(r.id, host, in.Scope.Port, in.Scope.Mode)
	if err != nil {
		r.log.Error("approval not raised", "host", host, "error", err)
		refuse(w, http.StatusServiceUnavailable, "not raised; try again later")
		return
	}
	if fresh {
		r.tellApproval(a)
	}
	answer(w, a.request(r.id, scopeOf(a)))
}

// mayRaise refuses what this run may not ask for.
func (r *run) mayRaise(in raised) (host string, err error) {
	h, err := egress.ParseHost(in.Scope.Host)
	switch {
	case err != nil:
		return "", err
	case in.Kind != kindEgress:
		return "", fmt.Errorf("approvals of kind %q are not raised here", in.Kind)
	case in.RunID != uuid.Nil && in.RunID != r.id:
		return "", errors.New("the approval is another run's")
	case in.Scope.Port < 1 || in.Scope.Port > 65535:
		return "", fmt.Errorf("port %d is none", in.Scope.Port)
	case !r.currentConfig().parsed.Policy.FirstUseApproval.Normalize().RaisesApproval():
		return "", errors.New("the run's policy raises no approvals")
	}
	return h.String(), nil
}

func (r *run) serveApproval(w http.ResponseWriter, q query) {
	a, ok := r.approvals.get(r.id, q.id)
	if !ok {
		refuse(w, http.StatusNotFound, "the run has no such approval")
		return
	}
	if r.opts.External != nil {
		r.approvalExternal(w, a)
		return
	}
	answer(w, a.request(r.id, scopeOf(a)))
}

func scopeOf(a Approval) []byte {
	b, _ := json.Marshal(egress.ApprovalScope{Host: a.Host, Port: a.Port, Mode: a.Mode}) // always marshals
	return b
}

func (r *run) tellApproval(a Approval) {
	r.keep.Lock()
	defer r.keep.Unlock()
	if r.owner.OnApproval != nil {
		r.owner.OnApproval(a)
	}
}
