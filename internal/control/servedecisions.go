package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// serveDecisions takes records, one a line, and acknowledges them once all are
// kept; a sidecar sends all of them again otherwise. What can never be kept is
// refused for good where it comes alone, and counted as lost among others.
func (r *run) serveDecisions(w http.ResponseWriter, q query) {
	lines := bytes.Split(bytes.TrimSpace(q.body), []byte("\n"))
	if len(lines) > batch {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a request has %d records at most", batch))
		return
	}
	for _, b := range lines {
		l, status, bad := r.readDecision(b)
		if bad != nil && len(lines) == 1 {
			refuse(w, status, bad.Error())
			return
		}
		if bad != nil {
			r.log.Error("a sidecar's record is refused", "error", bad)
			l = lostOne(r.id)
		}
		if err := r.record(l); err != nil {
			r.log.Error("decision not recorded; the sidecar will send it again", "error", err)
			refuse(w, http.StatusInsufficientStorage, "not recorded; try again")
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *run) readDecision(b []byte) (l egress.DecisionLog, status int, err error) {
	if err := json.Unmarshal(b, &l); err != nil {
		return l, http.StatusBadRequest, fmt.Errorf("not a decision record: %w", err)
	}
	return l, http.StatusUnprocessableEntity, r.judge(l)
}

// lostOne is the record of one that is lost.
func lostOne(run uuid.UUID) egress.DecisionLog {
	return egress.DecisionLog{
		Request: egress.Request{RunID: run, Time: time.Now().UTC()}, Decision: egress.Deny, RuleSource: droppedSource + "1",
		Flow: &egress.FlowDetail{Kind: KindGap},
	}
}

// judge refuses records that are no decision of this run.
func (r *run) judge(l egress.DecisionLog) error {
	switch {
	case l.Request.RunID != r.id:
		return errors.New("the record is another run's")
	case l.Decision != egress.Allow && l.Decision != egress.Deny && l.Decision != egress.Pending:
		return fmt.Errorf("decision %q is none", l.Decision)
	case l.Request.Time.IsZero():
		return errors.New("the record has no time")
	}
	if l.Flow == nil {
		return nil
	}
	switch l.Flow.Kind {
	case "", kindDecision, kindEnd, KindGap:
		return nil
	}
	return fmt.Errorf("kind %q is none", l.Flow.Kind)
}
