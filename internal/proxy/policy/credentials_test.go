package policy

import (
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

var keyRule = egress.InjectionGrant{InjectionRule: egress.InjectionRule{Host: "api.test", Header: "X-Key"}}

func TestG19CleartextCredential(t *testing.T) {
	spec := types.RunPolicySpec{AllowedDomains: []string{"api.test", "other.test", "*.api.test"}}
	clear := func(p *Policy, target string) string {
		r := request(t, target, "GET")
		r.Cleartext = true
		if out := p.Judge(r, Unasked); !out.OK() {
			return out.Source
		}
		return map[bool]string{true: "injected", false: "passed"}[p.InjectsInClear(r.Authority)]
	}
	closed := mustLoad(t, spec, egress.NodeConfig{}, keyRule)
	open := mustLoad(t, spec, egress.NodeConfig{Cleartext: []string{"api.test:8080"}}, keyRule)
	for _, c := range []struct{ target, closed, open string }{
		{"api.test:8080", CleartextCredential, "injected"},
		{"api.test:80", CleartextCredential, CleartextCredential},
		{"api.test:8081", CleartextCredential, CleartextCredential},
		{"www.api.test:8080", "passed", "passed"},
		{"other.test:8080", "passed", "passed"},
	} {
		if got := clear(closed, c.target); got != c.closed {
			t.Errorf("%s without the operator's word: %s", c.target, got)
		}
		if got := clear(open, c.target); got != c.open {
			t.Errorf("%s with it for api.test:8080: %s", c.target, got)
		}
	}
	if r := closed.Judge(request(t, "api.test:443", "CONNECT"), Unasked); !r.OK() {
		t.Errorf("a tunnel: %s", r.Source)
	}
}

// P38, P64: a policy that counts on a scan is refused, for nothing would be
// scanned.
func TestP38NothingIsScanned(t *testing.T) {
	for mode, good := range map[string]bool{"": true, "off": true, "alert": false, "block": false, "Off": false} {
		_, err := load(t, types.RunPolicySpec{LLMInspection: &types.LLMInspectionSpec{Mode: mode}}, egress.NodeConfig{})
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "scans no content") {
			t.Errorf("%q: %v", mode, err)
		}
	}
}

// The operator's word opens nothing that no exact entry names, and one that
// cannot be read opens nothing at all.
func TestG19CleartextNeedsAnExactEntry(t *testing.T) {
	node := egress.NodeConfig{Cleartext: []string{"api.test:8080"}}
	only := mustLoad(t, types.RunPolicySpec{AllowedDomains: []string{"api.test:8080"}}, node, keyRule)
	r := request(t, "api.test:8080", "GET")
	r.Cleartext = true
	if !only.InjectsInClear(r.Authority) || !only.Judge(r, Unasked).OK() {
		t.Error("an entry for just that port does not do")
	}
	wide := mustLoad(t, types.RunPolicySpec{AllowedDomains: []string{"api.test:443", "*.api.test"}, AllowAllEgress: true}, node, keyRule)
	if got := wide.Judge(r, Unasked); got.Source != CleartextCredential {
		t.Errorf("let through by a wide entry: %+v", got)
	}
	if _, err := load(t, types.RunPolicySpec{AllowedDomains: []string{"api.test:8081"}}, node, keyRule); err == nil {
		t.Error("a rule without an exact entry is admitted")
	}
	for _, bad := range []string{"api.test", "api.test:0", "*.test:80", "api.test:80/x", ""} {
		_, err := load(t, types.RunPolicySpec{}, egress.NodeConfig{Cleartext: []string{bad}})
		if err == nil || !strings.Contains(err.Error(), "cleartext destination") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
