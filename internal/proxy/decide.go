package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/policy"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// verdict is the outcome of decide: the ruling, what the request is for, and
// the addresses that may be dialled.
type verdict struct {
	policy.Ruling
	egress.Authority
	addrs []netip.Addr
	dns   time.Duration
	// through: the upstream proxy carries it, by name.
	through bool
}

// dnsTimeout bounds the resolution of one name.
const dnsTimeout = 10 * time.Second

// maxAnswers bounds how many addresses of one name are looked at.
const maxAnswers = 64

// decide is the one verdict function of every way in. It goes from grammar to
// vetted addresses in the order of the ground rules and dials nothing.
func (s *Server) decide(ctx context.Context, a ask) verdict {
	v := s.admit(ctx, a)
	if v.OK() {
		s.vet(ctx, &v)
	}
	return v
}

// admit is the part of decide that needs no name resolution.
func (s *Server) admit(ctx context.Context, a ask) verdict {
	auth, bad := grammar(a)
	if bad != nil {
		return verdict{Ruling: *bad}
	}
	if _, literal := auth.Host.Addr(); literal {
		s.learnOwn(ctx) // literals are judged by address here already
	}
	req := policy.Request{Authority: auth, Method: a.method, Cleartext: a.cleartext}
	if s.o.Evaluator != nil {
		return verdict{Authority: auth, Ruling: s.evaluate(ctx, req)}
	}
	return verdict{Authority: auth, Ruling: s.judge(req, func() (policy.Approval, *uuid.UUID) { return s.book.Ask(ctx, auth) })}
}

// judge asks for an approval where no list speaks of the host.
func (s *Server) judge(req policy.Request, approval func() (policy.Approval, *uuid.UUID)) policy.Ruling {
	r := s.policy.Judge(req, policy.Unasked)
	if r.Ask && s.book != nil {
		known, id := approval()
		r = s.policy.Judge(req, known)
		r.Approval = approvalOf(known, id)
	}
	return r
}

func approvalOf(a policy.Approval, id *uuid.UUID) *uuid.UUID {
	if a == policy.Unasked {
		return nil
	}
	return id
}

// grammar judges host, port and method as they stand on the wire.
func grammar(a ask) (egress.Authority, *policy.Ruling) {
	bad := func(source, cause string) (egress.Authority, *policy.Ruling) {
		return egress.Authority{}, &policy.Ruling{Decision: egress.Deny, Source: source, Cause: cause,
			Hint: "the request itself is malformed; no setting changes that"}
	}
	host, err := egress.ParseHost(a.host)
	if err != nil {
		return bad(policy.BadHost, printable(err.Error()))
	}
	if a.port < 1 || a.port > 65535 {
		return bad(policy.BadRequest, "the port is not a decimal number from 1 to 65535")
	}
	if !policy.ValidMethod(a.method) {
		return bad(policy.BadRequest, "a method is 1 to 32 upper-case letters")
	}
	return egress.Authority{Host: host, Port: uint16(a.port)}, nil
}

// evaluate asks a replaced evaluator in the place of the policy's lists.
func (s *Server) evaluate(ctx context.Context, req policy.Request) policy.Ruling {
	if out, blocked := s.policy.Literal(req.Host); blocked {
		return out // before anybody is asked
	}
	op, err := s.o.Evaluator.EvaluateHost(ctx, egress.Request{
		RunID: s.runID, Host: req.Host.String(), Port: int(req.Port), Method: req.Method, Time: time.Now(),
	})
	if err != nil {
		return policy.Ruling{Decision: egress.Deny, Source: policy.EvaluatorError, Cause: "the evaluator failed: " + err.Error(),
			Hint: "the operator's evaluator " + s.o.Evaluator.Name() + " must answer"}
	}
	return s.policy.JudgeOpinion(req, op, s.o.Evaluator.MethodAllowed(req.Method))
}

// vet resolves the name once and vets every answer. Literals and names that
// the operator pinned need no query.
func (s *Server) vet(ctx context.Context, v *verdict) {
	s.learnOwn(ctx)
	if a, ok := v.Host.Addr(); ok {
		v.addrs, v.through = []netip.Addr{a}, s.through(v.Authority)
		if err := s.guard.Check(v.Host, a); err != nil { // Judge did so with an older list
			v.Ruling = policy.BlockedAddress(v.Host, err)
		}
		return
	}
	if v.through = s.through(v.Authority); v.through {
		if bad := vetByName(v.Host); bad != nil {
			v.Ruling = *bad
		}
		return
	}
	addrs := s.guard.Pinned(v.Host)
	if addrs == nil {
		start := time.Now()
		if !s.names.spend(v.Host, start) {
			v.Ruling = policy.Ruling{Decision: egress.Deny, Source: policy.Limit, Status: 429,
				Cause: "too many new names below " + v.Host.Registrable() + " in a short time", Hint: "names that were asked for before are not limited; try again later"}
			return
		}
		found, err := s.lookup(ctx, v.Host)
		v.dns = time.Since(start)
		if err != nil {
			v.Ruling = resolveFailed(v.Host, err)
			return
		}
		addrs = found
	}
	if err := s.guard.CheckAll(v.Host, addrs); err != nil {
		r := policy.BlockedAddress(v.Host, err)
		r.Cause = fmt.Sprintf("%s resolves to a blocked address: %s", v.Host, r.Cause)
		v.Ruling = r
		return
	}
	v.addrs = addrs
}

func (s *Server) lookup(ctx context.Context, h egress.Host) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	addrs, err := s.resolver.LookupNetIP(ctx, "ip", h.Name()+".")
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errors.New("the name has no address")
	}
	if len(addrs) > maxAnswers {
		return nil, fmt.Errorf("the name has more than %d addresses", maxAnswers)
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap().WithZone("")
	}
	return addrs, nil
}

func resolveFailed(h egress.Host, err error) policy.Ruling {
	cause := "the name server failed"
	var de *net.DNSError
	switch {
	case errors.As(err, &de) && de.IsNotFound:
		cause = "there is no such name"
	case errors.As(err, &de) && de.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		cause = "the name server did not answer in time"
	case !errors.As(err, &de):
		cause = err.Error()
	}
	return policy.Ruling{Decision: egress.Deny, Source: policy.ResolveFailed, Cause: fmt.Sprintf("resolve %s: %s", h, cause),
		Hint: "policy allows this host; check the name, or the sidecar's name servers"}
}

// newResolver asks the given servers in turn, or those of the container.
func newResolver(servers []string) Resolver {
	r := &net.Resolver{PreferGo: true}
	if len(servers) > 0 {
		var next atomic.Uint32
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, servers[int(next.Add(1))%len(servers)])
		}
	}
	return r
}
