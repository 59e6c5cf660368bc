// Package policy is the proxy's judgement: one pure function from a request and
// a snapshot of what policy, operator and node say to a ruling. It asks nobody:
// name resolution, approvals and dialling are the engine's, which calls Judge
// again with what it learnt.
package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/dialguard"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Policy is a run's policy and the node's limits, made for judging. It does not
// change after Load.
type Policy struct {
	allow, deny               egress.List
	allowCeiling, denyCeiling egress.List
	allowAll                  bool
	mode                      types.FirstUseMode
	methods                   map[string]bool // nil means every method
	guard                     *dialguard.Guard
	credentials               map[egress.Host]bool
	cleartext                 map[egress.Authority]bool // where a credential may travel unencrypted
	learn                     bool
	warnings                  []string
}

// Input is what a Policy is made of.
type Input struct {
	Spec  types.RunPolicySpec
	Node  egress.NodeConfig
	Guard *dialguard.Guard
	// Injection rules; each needs an exact allow entry.
	Injection []egress.InjectionGrant
}

// Load reads every list and names every fault. An allow entry that is invalid
// never matches and is a warning; everything else that is invalid would fail
// open, so there is no policy then.
func Load(in Input) (*Policy, error) {
	p := &Policy{
		allowAll: in.Spec.AllowAllEgress,
		mode:     in.Spec.FirstUseApproval.Normalize(),
		methods:  methodSet(in.Spec.AllowedMethods),
		guard:    in.Guard,
		learn:    in.Node.Learn,
	}
	var allow []egress.Entry
	for _, s := range in.Spec.AllowedDomains {
		e, err := egress.ParseAllow(s)
		if err != nil {
			p.warn("%v; the entry matches nothing", err)
			continue
		}
		allow = append(allow, e)
	}
	p.allow = egress.NewList(allow...)
	var errs [6]error
	p.deny, errs[0] = egress.ParseList(in.Spec.DeniedDomains, egress.ParseDeny)
	p.denyCeiling, errs[1] = egress.ParseList(in.Node.DenyCeiling, egress.ParseDeny)
	p.allowCeiling, errs[2] = egress.ParseList(in.Node.AllowCeiling, egress.ParseCeiling)
	p.cleartext, errs[3] = parseCleartext(in.Node.Cleartext)
	errs[4] = p.admitRules(in.Injection)
	errs[5] = checkInspection(in.Spec.LLMInspection)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if p.methods["CONNECT"] && len(p.methods) > 0 {
		p.warn("allowed_methods cannot be seen inside TLS tunnels that are not intercepted: with CONNECT listed, every method passes there")
	}
	return p, nil
}

// admitRules accepts an injection rule only for a host with an exact allow
// entry, bare or for a port that it is injected at, that is not denied; one rule
// a host.
func (p *Policy) admitRules(rules []egress.InjectionGrant) error {
	p.credentials = map[egress.Host]bool{}
	var errs []error
	for _, r := range rules {
		h, err := egress.ParseHost(r.Host)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("injection rule: %w", err))
		case r.Header == "":
			errs = append(errs, fmt.Errorf("injection rule for %s: the header is missing", h))
		case p.credentials[h]:
			errs = append(errs, fmt.Errorf("injection rule for %s: there are two; fold them into one", h))
		case !p.allow.HasExact(h, 443) && !p.allowsInClear(h):
			errs = append(errs, fmt.Errorf("injection rule for %s: the host needs an exact allow entry, %q or %q", h, h.String(), h.String()+":443"))
		case p.isDenied(h, 443):
			errs = append(errs, fmt.Errorf("injection rule for %s: a deny entry covers the host", h))
		default:
			p.credentials[h] = true
		}
	}
	return errors.Join(errs...)
}

// checkInspection refuses a policy that counts on its traffic being scanned:
// this proxy looks into no content, and would let pass what was to be blocked.
func checkInspection(in *types.LLMInspectionSpec) error {
	if in == nil || in.Mode == "" || in.Mode == "off" {
		return nil
	}
	return fmt.Errorf("llm_inspection mode %q: this proxy scans no content; write \"off\", and narrow the allow list or have methods and paths recorded by interception", in.Mode)
}

func (p *Policy) isDenied(h egress.Host, port uint16) bool {
	_, denied := p.deny.Find(h, port)
	_, capped := p.denyCeiling.Find(h, port)
	return denied || capped
}

func (p *Policy) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// Warnings are sentences for the log at start.
func (p *Policy) Warnings() []string { return slices.Clone(p.warnings) }

// Mode is the first-use mode that holds.
func (p *Policy) Mode() types.FirstUseMode { return p.mode }

// HasMethodList reports whether methods are restricted at all.
func (p *Policy) HasMethodList() bool { return p.methods != nil }

// HasCredential reports whether an injection rule was admitted for the host.
func (p *Policy) HasCredential(h egress.Host) bool { return p.credentials[h] }

// methodSet reads a method list. An entry that is no method matches nothing,
// but the list still counts as one.
func methodSet(list []string) map[string]bool {
	if len(list) == 0 {
		return nil
	}
	set := make(map[string]bool, len(list))
	for _, m := range list {
		if m = strings.ToUpper(strings.Trim(m, " \t")); ValidMethod(m) {
			set[m] = true
		}
	}
	return set
}

// ValidMethod reports whether m can be a request method at all: 1 to 32 bytes
// of A-Z and '-'.
func ValidMethod(m string) bool {
	if m == "" || len(m) > 32 {
		return false
	}
	for i := 0; i < len(m); i++ {
		if (m[i] < 'A' || m[i] > 'Z') && m[i] != '-' {
			return false
		}
	}
	return true
}

// MethodAllowed reports whether a method may be used. TRACE and TRACK reflect
// credentials and are never allowed; HEAD follows GET.
func (p *Policy) MethodAllowed(m string) bool {
	if m == "TRACE" || m == "TRACK" {
		return false
	}
	return p.methods == nil || p.methods[m] || m == "HEAD" && p.methods["GET"]
}
