package policy

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/dialguard"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// LearnRule is the rule of what learn mode let through although no list speaks
// of it.
const LearnRule = "learn mode"

// Request is what Judge judges: a request after its grammar was found good.
type Request struct {
	egress.Authority
	Method string
	// Cleartext: the request itself travels unencrypted, as all plain HTTP does.
	Cleartext bool
}

// Approval is what is known of a host and port that policy does not list.
type Approval int

const (
	// Unasked: nobody was asked yet.
	Unasked Approval = iota
	// Pending: a reviewer was asked and has not answered.
	Pending
	// Approved and Refused: a reviewer's answer, while it holds.
	Approved
	Refused
)

// Ruling is the outcome of one judgement.
type Ruling struct {
	Decision egress.Decision
	Source   string
	// Rule is the entry that decided, as written, or empty.
	Rule string
	// Cause is a sentence: what is wrong.
	Cause string
	// Hint is a sentence: what an author or an operator can change.
	Hint string
	// Status is what to answer where the source alone does not say it.
	Status int
	// Raw: the tunnel is not looked into.
	Raw bool
	// Ask: a plain miss; an approval may be raised before judging again.
	Ask bool
	// Approval is the id of the approval that decided, or of the one pending.
	Approval *uuid.UUID
}

// OK reports whether the request may go on.
func (r Ruling) OK() bool { return r.Decision == egress.Allow }

func refused(source, rule, cause, hint string) Ruling {
	return Ruling{Decision: egress.Deny, Source: source, Rule: rule, Cause: cause, Hint: hint}
}

// Judge gives the verdict on everything that can be said without asking
// anybody, in the order of the ground rules: blocked literals, deny lists,
// allow lists, method, cleartext credentials. The first step that stops the
// request names the source.
func (p *Policy) Judge(r Request, approval Approval) Ruling {
	if out, blocked := p.Literal(r.Host); blocked {
		return out
	}
	if out, denied := p.denied(r); denied {
		return out
	}
	out := p.allowed(r, approval)
	if !out.OK() {
		return out
	}
	if !p.MethodAllowed(r.Method) {
		return refused(Method, "", fmt.Sprintf("method %s is not allowed", r.Method), methodHint(r.Method))
	}
	if bad, stopped := p.cleartextCredential(r); stopped {
		return bad
	}
	return out
}

func methodHint(m string) string {
	switch m {
	case "TRACE", "TRACK":
		return "this method reflects credentials and is always refused"
	case "CONNECT":
		return `the job's egress.methods has no "CONNECT", so TLS tunnels are forbidden altogether; the author can add it`
	}
	return fmt.Sprintf("the author can add %q to the job's egress.methods", m)
}

// Literal refuses blocked address literals and localhost before any list is
// looked at, so that no list and no approval can open them.
func (p *Policy) Literal(h egress.Host) (Ruling, bool) {
	if h.IsLocalhost() {
		return refused(PrivateIP, "", h.String()+" is this machine itself", "a sandbox reaches its own services directly, not through the proxy"), true
	}
	a, ok := h.Addr()
	if !ok {
		return Ruling{}, false
	}
	if err := p.guard.Check(h, a); err != nil {
		return BlockedAddress(h, err), true
	}
	return Ruling{}, false
}

// BlockedAddress is the ruling for an address of a host that the guard refused.
func BlockedAddress(h egress.Host, err error) Ruling {
	var b *dialguard.BlockedError
	hint := "no setting opens this address"
	if errors.As(err, &b) && b.Openable {
		hint = fmt.Sprintf("only the operator can open this address for %q (plugin option private_hosts)", h)
		if _, literal := h.Addr(); literal {
			hint = "no setting opens an address by itself; only the operator can open it for a name, by which it is then asked for (plugin option private_hosts)"
		}
	}
	return refused(PrivateIP, "", err.Error(), hint)
}

func (p *Policy) denied(r Request) (Ruling, bool) {
	if out, capped := p.deniedByOperator(r); capped {
		return out, true
	}
	if e, hit := p.deny.Find(r.Host, r.Port); hit {
		return refused(Denied, e.String(), fmt.Sprintf("deny entry %q covers %s", e, r.Authority),
			"a deny entry wins over every allow and approval; the author can take it out of the job's egress.deny"), true
	}
	return Ruling{}, false
}

func (p *Policy) deniedByOperator(r Request) (Ruling, bool) {
	e, hit := p.denyCeiling.Find(r.Host, r.Port)
	if !hit {
		return Ruling{}, false
	}
	return refused(Denied, e.String(), fmt.Sprintf("the operator's deny entry %q covers %s", e, r.Authority),
		"only the operator can change this list (plugin option deny_domains), and it wins over everything"), true
}

// beyondCeiling refuses what the operator's allow ceiling does not cover. raw
// says whether the ceiling lets a tunnel be raw.
func (p *Policy) beyondCeiling(r Request) (out Ruling, raw, beyond bool) {
	if p.allowCeiling.Empty() {
		return Ruling{}, true, false
	}
	e, within := p.allowCeiling.Find(r.Host, r.Port)
	if within {
		return Ruling{}, e.TCP, false
	}
	return refused(Denied, "", fmt.Sprintf("the operator's ceiling does not cover %s", r.Authority),
		"no policy and no approval goes beyond the ceiling; only the operator can widen it (plugin option allow_domains)"), false, true
}

func (p *Policy) allowed(r Request, approval Approval) Ruling {
	out, raw, beyond := p.beyondCeiling(r)
	if beyond {
		return out
	}
	if e, hit := p.allow.Find(r.Host, r.Port); hit {
		return Ruling{Decision: egress.Allow, Source: Allowed, Rule: e.String(), Raw: e.TCP && raw}
	}
	if p.allowAll {
		return Ruling{Decision: egress.Allow, Source: Allowed, Rule: "allow_all_egress"}
	}
	return p.missed(r, approval)
}

// missed is the ruling on a host and port that no list speaks of.
func (p *Policy) missed(r Request, approval Approval) Ruling {
	add := fmt.Sprintf("the author can add %q to the job's egress.allow", r.Authority.String())
	cause := fmt.Sprintf("no allow entry covers %s", r.Authority)
	if r.Host.Name() == egress.SidecarName {
		return refused(DefaultDeny, "", cause, "this is the proxy itself, which needs no entry: its routes below /wardyn/ are asked for without a proxy, at port 3128")
	}
	if p.learn {
		return Ruling{Decision: egress.Allow, Source: Allowed, Rule: LearnRule, Cause: "would be denied: " + cause}
	}
	if !p.mode.RaisesApproval() {
		return refused(DefaultDeny, "", cause, add)
	}
	switch approval {
	case Approved:
		return Ruling{Decision: egress.Allow, Source: Allowed, Rule: "approval"}
	case Refused:
		return refused(ApprovalDenied, "", fmt.Sprintf("a reviewer denied %s, or took an approval back", r.Authority), "the decision holds for this run; "+add)
	case Pending:
		return Ruling{Decision: egress.Pending, Source: ApprovalPending, Cause: cause + "; a reviewer was asked",
			Hint: "try again once it is approved; " + add}
	}
	out := refused(DefaultDeny, "", cause, add)
	out.Ask = true
	return out
}

// JudgeOpinion is Judge with the run's host and method lists replaced by
// somebody else's opinion. Address guard and ceilings hold all the same.
func (p *Policy) JudgeOpinion(r Request, op egress.Opinion, methodAllowed bool) Ruling {
	const hint = "the operator's evaluator decides"
	if out, stopped := p.before(r, p.deniedByOperator); stopped {
		return out
	}
	switch {
	case op == egress.Denied:
		return refused(Denied, "", fmt.Sprintf("the evaluator denies %s", r.Authority), hint)
	case op != egress.Allowed:
		return refused(DefaultDeny, "", fmt.Sprintf("the evaluator does not allow %s", r.Authority), hint)
	case !methodAllowed:
		return refused(Method, "", fmt.Sprintf("method %s is not allowed", r.Method), hint)
	}
	if out, stopped := p.cleartextCredential(r); stopped {
		return out
	}
	return Ruling{Decision: egress.Allow, Source: Allowed, Rule: "evaluator"}
}

// JudgeGranted is Judge for a request that a grant of the run allows in the
// place of the allow list; rule names the grant.
func (p *Policy) JudgeGranted(r Request, rule string) Ruling {
	if out, stopped := p.before(r, p.denied); stopped {
		return out
	}
	if !p.MethodAllowed(r.Method) {
		return refused(Method, "", fmt.Sprintf("method %s is not allowed", r.Method), methodHint(r.Method))
	}
	return Ruling{Decision: egress.Allow, Source: Allowed, Rule: rule}
}

// before goes through what stands before every allow: literals, a deny list,
// the operator's ceiling.
func (p *Policy) before(r Request, denied func(Request) (Ruling, bool)) (Ruling, bool) {
	if out, blocked := p.Literal(r.Host); blocked {
		return out, true
	}
	if out, hit := denied(r); hit {
		return out, true
	}
	out, _, beyond := p.beyondCeiling(r)
	return out, beyond
}
