package plugin

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// loudReviews are told one by one: somebody is to act on each.
const loudReviews = 8

// reviews tells of first uses that wait for somebody, and of what was decided.
type reviews struct {
	waiting *rationed
	tell    func(message string, about ...string)
	mode    ApprovalMode
}

func newReviews(mode ApprovalMode, tell func(string, ...string)) *reviews {
	return &reviews{tell: tell, mode: mode, waiting: newRationed(loudReviews, tell, func(n int, last string) string {
		return fmt.Sprintf("%d more first uses wait for approval, the latest of %s; nomad alloc exec ALLOC wardyn pending shows them all", n, last)
	})}
}

// way says how whoever may decide does it: approve or revoke.
func (m ApprovalMode) way(verb, id string) string {
	switch m {
	case ApprovalsExec:
		return "nomad alloc exec ALLOC wardyn " + verb + " " + id
	case ApprovalsExternal:
		return "the control plane knows it as " + id
	}
	return "on the node: nomad-driver-wardyn ctl " + verb + " " + id
}

// hear takes an approval that was raised or decided.
func (r *reviews) hear(a control.Approval) {
	where, id := safeText(target(a)), a.ID.String()[:8]
	if a.State == egress.ApprovalPending {
		r.waiting.say(where, fmt.Sprintf("Approval waiting: first use of %s (id %s); %s", where, id, r.mode.way("approve", id)), "host", where, "approval", a.ID.String())
		return
	}
	r.tell(fmt.Sprintf("%s: first use of %s (id %s), by %s", verdictWord(a), where, id, safeText(a.DecidedBy)),
		"host", where, "approval", a.ID.String())
}

// target is what an approval covers.
func target(a control.Approval) string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// verdictWord is what became of an approval, in a few words.
func verdictWord(a control.Approval) string {
	switch {
	case a.State == egress.ApprovalApproved && !a.Until.IsZero():
		return "Approved until " + a.Until.UTC().Format("2006-01-02 15:04:05Z")
	case a.State == egress.ApprovalApproved && a.Scope == control.ScopeAttempt:
		return "Approved for this attempt"
	case a.State == egress.ApprovalApproved:
		return "Approved"
	case a.Revoked:
		return "Revoked"
	}
	return capital(strings.ToLower(string(a.State)))
}

func capital(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// listen makes what hears of a task's requests, and what its sidecar may ask
// for.
func (p *Plugin) listen(t *task) {
	host, _ := p.options()
	tell := func(m string, about ...string) { p.events.emit(t.config, m, about...) }
	t.denials = newDenials(tell)
	t.reviews = newReviews(host.Approvals, tell)
	t.credentials = p.credentials(t.config, t.state.Sources)
}
