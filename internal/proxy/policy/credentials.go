package policy

import (
	"errors"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// InjectsAt reports whether a credential is injected into requests to a: the
// host has a rule, and an exact allow entry covers the port.
func (p *Policy) InjectsAt(a egress.Authority) bool {
	return p.credentials[a.Host] && p.allow.HasExact(a.Host, a.Port)
}

// InjectsInClear reports whether that holds for requests in the clear too,
// because the operator said so for just this host and port.
func (p *Policy) InjectsInClear(a egress.Authority) bool {
	return p.cleartext[a] && p.InjectsAt(a)
}

// cleartextCredential refuses a request that travels unencrypted to a host with
// a rule. The host counts and not the port: a client that meant to be
// authenticated is not to speak in the clear by mistake.
func (p *Policy) cleartextCredential(r Request) (Ruling, bool) {
	if !r.Cleartext || !p.credentials[r.Host] || p.InjectsInClear(r.Authority) {
		return Ruling{}, false
	}
	return refused(CleartextCredential, "", fmt.Sprintf("a credential is injected for %s and not sent unencrypted", r.Host),
		"use https for this host; only the operator can let a credential travel in the clear (cleartext of the plugin option credential)"), true
}

// parseCleartext reads NodeConfig.Cleartext. What cannot be read is refused,
// since nobody knows what it was meant to open.
func parseCleartext(list []string) (map[egress.Authority]bool, error) {
	out := make(map[egress.Authority]bool, len(list))
	var errs []error
	for _, s := range list {
		a, err := egress.ParseAuthority(s, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("cleartext destination %q: %w", s, err))
			continue
		}
		out[a] = true
	}
	return out, errors.Join(errs...)
}

// allowsInClear reports whether an exact allow entry covers a destination on h
// where the credential may travel unencrypted.
func (p *Policy) allowsInClear(h egress.Host) bool {
	for a := range p.cleartext {
		if a.Host == h && p.allow.HasExact(h, a.Port) {
			return true
		}
	}
	return false
}
