package policy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/dialguard"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

func load(t *testing.T, spec types.RunPolicySpec, node egress.NodeConfig, rules ...egress.InjectionGrant) (*Policy, error) {
	t.Helper()
	g, err := dialguard.New(node)
	if err != nil {
		t.Fatal(err)
	}
	return Load(Input{Spec: spec, Node: node, Guard: g, Injection: rules})
}

func mustLoad(t *testing.T, spec types.RunPolicySpec, node egress.NodeConfig, rules ...egress.InjectionGrant) *Policy {
	t.Helper()
	p, err := load(t, spec, node, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(t *testing.T, authority, method string) Request {
	t.Helper()
	a, err := egress.ParseAuthority(authority, 0)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Authority: a, Method: method, Cleartext: method != "CONNECT"}
}

// TestK34CeilingIsASecondList: allow, allow-all and approvals all pass through it.
func TestK34CeilingIsASecondList(t *testing.T) {
	node := egress.NodeConfig{AllowCeiling: []string{"*.corp.test", "api.test:443"}, DenyCeiling: []string{"evil.corp.test"}}
	lists := map[string]types.RunPolicySpec{
		"allow list": {AllowedDomains: []string{"a.corp.test", "api.test", "evil.corp.test", "other.test"}},
		"allow-all":  {AllowAllEgress: true},
		"approved":   {FirstUseApproval: types.DenyWithReview},
	}
	for name, spec := range lists {
		p := mustLoad(t, spec, node)
		for target, want := range map[string]string{
			"a.corp.test:443": Allowed, "api.test:443": Allowed, "api.test:80": Denied, "evil.corp.test:443": Denied, "other.test:443": Denied,
		} {
			r := p.Judge(request(t, target, "CONNECT"), Approved)
			if r.Source != want {
				t.Errorf("%s: %s is %s, want %s", name, target, r.Source, want)
			}
			if r.Source == Denied && !strings.Contains(r.Hint, "only the operator") {
				t.Errorf("%s: %s: the hint does not say who can change it: %q", name, target, r.Hint)
			}
		}
	}
	p := mustLoad(t, lists["approved"], node)
	if r := p.Judge(request(t, "other.test:443", "CONNECT"), Unasked); r.Ask {
		t.Error("a host beyond the ceiling raises an approval")
	}
}

func TestCeilingDecidesRawTunnels(t *testing.T) {
	spec := types.RunPolicySpec{AllowedDomains: []string{"db.test:5432+tcp"}}
	for ceiling, want := range map[string]bool{"": true, "db.test": false, "db.test:5432+tcp": true} {
		node := egress.NodeConfig{}
		if ceiling != "" {
			node.AllowCeiling = []string{ceiling}
		}
		if r := mustLoad(t, spec, node).Judge(request(t, "db.test:5432", "CONNECT"), Unasked); !r.OK() || r.Raw != want {
			t.Errorf("ceiling %q: ok %t raw %t, want raw %t", ceiling, r.OK(), r.Raw, want)
		}
	}
}

func TestG5LoadRefusesWhatWouldFailOpen(t *testing.T) {
	_, err := load(t, types.RunPolicySpec{DeniedDomains: []string{"a..b", "ok.test", "x:0"}}, egress.NodeConfig{DenyCeiling: []string{"*"}, AllowCeiling: []string{"y:abc"}})
	if err == nil {
		t.Fatal("loaded")
	}
	for _, entry := range []string{"a..b", "x:0", `"*"`, "y:abc"} {
		if !strings.Contains(err.Error(), entry) {
			t.Errorf("the error does not name %s: %v", entry, err)
		}
	}
	p := mustLoad(t, types.RunPolicySpec{AllowedDomains: []string{"a..b", "*.com", "ok.test"}}, egress.NodeConfig{})
	if n := len(p.Warnings()); n != 2 {
		t.Errorf("%d warnings, want one for each inert entry: %v", n, p.Warnings())
	}
}

func TestP27InjectionNeedsAnExactEntry(t *testing.T) {
	rule := func(host string) egress.InjectionGrant {
		return egress.InjectionGrant{InjectionRule: egress.InjectionRule{Host: host, Header: "Authorization"}, GrantID: uuid.New()}
	}
	tests := map[string]struct {
		spec types.RunPolicySpec
		ok   bool
	}{
		"bare":         {types.RunPolicySpec{AllowedDomains: []string{"api.test"}}, true},
		"port 443":     {types.RunPolicySpec{AllowedDomains: []string{"api.test:443"}}, true}, // B33
		"another port": {types.RunPolicySpec{AllowedDomains: []string{"api.test:8443"}}, false},
		"wildcard":     {types.RunPolicySpec{AllowedDomains: []string{"*.test.test"}}, false},
		"allow-all":    {types.RunPolicySpec{AllowAllEgress: true}, false}, // G7
		"denied":       {types.RunPolicySpec{AllowedDomains: []string{"api.test"}, DeniedDomains: []string{"api.test"}}, false},
	}
	for name, tt := range tests {
		if _, err := load(t, tt.spec, egress.NodeConfig{}, rule("api.test")); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want ok %t", name, err, tt.ok)
		}
	}
	if _, err := load(t, tests["bare"].spec, egress.NodeConfig{}, rule("api.test"), rule("API.test.")); err == nil {
		t.Error("two rules for one host are accepted")
	}
	p := mustLoad(t, tests["port 443"].spec, egress.NodeConfig{}, rule("api.test"))
	if !p.InjectsAt(request(t, "api.test:443", "GET").Authority) || p.InjectsAt(request(t, "api.test:8443", "GET").Authority) {
		t.Error("E105: the credential is not bound to the entry's port")
	}
}

func TestG1Order(t *testing.T) {
	spec := types.RunPolicySpec{
		AllowedDomains: []string{"a.test", "10.0.0.1"}, DeniedDomains: []string{"10.0.0.1", "d.test"}, AllowedMethods: []string{"GET"},
		FirstUseApproval: types.DenyWithReview,
	}
	p := mustLoad(t, spec, egress.NodeConfig{})
	for target, want := range map[string]string{
		"10.0.0.1:80":  PrivateIP,       // before the deny list
		"localhost:80": PrivateIP,       // before the allow list
		"d.test:80":    Denied,          // before the method list
		"new.test:80":  ApprovalPending, // the miss comes before the method
		"a.test:80":    Method,
	} {
		if r := p.Judge(request(t, target, "POST"), Pending); r.Source != want {
			t.Errorf("%s: %s, want %s", target, r.Source, want)
		}
	}
}

func TestEveryRefusalExplainsItself(t *testing.T) {
	spec := types.RunPolicySpec{AllowedDomains: []string{"a.test"}, DeniedDomains: []string{"d.test"}, AllowedMethods: []string{"GET"}}
	p := mustLoad(t, spec, egress.NodeConfig{DenyCeiling: []string{"op.test"}})
	for _, target := range []string{"new.test:443", "d.test:443", "op.test:443", "a.test:443", "10.0.0.1:443", "169.254.169.254:80", "localhost:1"} {
		r := p.Judge(request(t, target, "CONNECT"), Unasked)
		if r.OK() || r.Cause == "" || r.Hint == "" {
			t.Errorf("%s: %+v", target, r)
		}
	}
	if r := p.Judge(request(t, "d.test:443", "CONNECT"), Unasked); r.Rule != "d.test" {
		t.Errorf("the rule is not named: %+v", r)
	}
}

// TestC19EvaluatorKeepsGuardAndCeilings: what is pluggable are the lists only.
func TestC19EvaluatorKeepsGuardAndCeilings(t *testing.T) {
	p := mustLoad(t, types.RunPolicySpec{}, egress.NodeConfig{DenyCeiling: []string{"op.test"}, AllowCeiling: []string{"*.test"}})
	for target, want := range map[string]string{"a.test:443": Allowed, "op.test:443": Denied, "a.example:443": Denied, "10.0.0.1:443": PrivateIP} {
		if r := p.JudgeOpinion(request(t, target, "CONNECT"), egress.Allowed, true); r.Source != want {
			t.Errorf("%s: %s, want %s", target, r.Source, want)
		}
	}
	if r := p.JudgeOpinion(request(t, "a.test:443", "CONNECT"), egress.Unknown, true); r.OK() {
		t.Error("an unknown host is allowed")
	}
	if r := p.JudgeOpinion(request(t, "a.test:443", "CONNECT"), egress.Allowed, false); r.Source != Method {
		t.Errorf("method: %s", r.Source)
	}
}

// TestI4HintsOnBlockedAddresses: a hint names what can be done, which is another
// thing for a name than for an address that is asked for by itself.
func TestI4HintsOnBlockedAddresses(t *testing.T) {
	for target, want := range map[string]string{
		"db.corp.test 10.0.0.1":           `for "db.corp.test" (plugin option private_hosts)`,
		"10.0.0.1 10.0.0.1":               "no setting opens an address by itself",
		"db.corp.test 169.254.169.254":    "no setting opens this address",
		"169.254.169.254 169.254.169.254": "no setting opens this address",
	} {
		name, addr, _ := strings.Cut(target, " ")
		h, err := egress.ParseHost(name)
		if err != nil {
			t.Fatal(err)
		}
		g, err := dialguard.New(egress.NodeConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if r := BlockedAddress(h, g.Check(h, netip.MustParseAddr(addr))); r.Source != PrivateIP || !strings.Contains(r.Hint, want) {
			t.Errorf("%s: %+v, want %q", target, r, want)
		}
	}
}

// TestI4ProxyItself: nobody is asked about the proxy's own name, and no hint says
// to list it.
func TestI4ProxyItself(t *testing.T) {
	for _, node := range []egress.NodeConfig{{}, {Learn: true}} {
		p, err := load(t, types.RunPolicySpec{FirstUseApproval: types.DenyWithReview}, node)
		if err != nil {
			t.Fatal(err)
		}
		a, err := egress.ParseAuthority(egress.SidecarName, 80)
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Judge(Request{Authority: a, Method: "GET"}, Unasked); r.OK() || r.Ask || r.Source != DefaultDeny || !strings.Contains(r.Hint, "port 3128") {
			t.Errorf("learn %v: %+v", node.Learn, r)
		}
	}
}
