package policy

import (
	"strconv"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/dialguard"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// FuzzJudge holds a whole policy to a second judgement that is made of text
// alone: what is allowed here is allowed there, so this one is never wider. Lists
// are written one entry a line.
func FuzzJudge(f *testing.F) {
	f.Add("*.a.test:443\nb.test", "x.a.test", "", "", "", "X.A.Test.", uint16(443), "CONNECT", false)
	f.Add("a.test", "", "*.corp.test\na.test:443", "a.corp.test", "get\nCONNECT", "a.test", uint16(80), "HEAD", false)
	f.Add("", "evil.test", "", "*.test", "TRACE", "good.example", uint16(8443), "TRACE", true)
	f.Add("", "evil.test", "", "", "", "evil.test", uint16(443), "CONNECT", true)
	f.Add("*.a.test", "", "*.test", "", "GET", "xa.test", uint16(443), "POST", false)
	f.Add("*.a.test\nb.test", "", "*.a.test", "", "", "b.test", uint16(443), "CONNECT", false)
	f.Add("8.8.8.8:53+tcp\nbücher.test", "*", "*", "*.8.8", "", "8.8.8.8", uint16(53), "CONNECT", false)
	f.Fuzz(func(t *testing.T, allow, deny, allowCeiling, denyCeiling, methods, host string, port uint16, method string, all bool) {
		h, err := egress.ParseHost(host)
		if err != nil || port == 0 || !ValidMethod(method) {
			return // refused before any policy is asked
		}
		node := egress.NodeConfig{AllowCeiling: lines(allowCeiling), DenyCeiling: lines(denyCeiling)}
		g, err := dialguard.New(node)
		if err != nil {
			t.Fatal(err)
		}
		spec := types.RunPolicySpec{AllowedDomains: lines(allow), DeniedDomains: lines(deny), AllowAllEgress: all, AllowedMethods: lines(methods)}
		p, err := Load(Input{Spec: spec, Node: node, Guard: g})
		if err != nil {
			return // there is no policy, and nothing passes
		}
		got := p.Judge(Request{Authority: egress.Authority{Host: h, Port: port}, Method: method, Cleartext: method != "CONNECT"}, Unasked)
		if got.OK() && !naive(spec, node, h.String(), port, method) {
			t.Fatalf("%s %s:%d is allowed by %q, the naive judgement says no: %+v, %+v", method, h, port, got.Rule, spec, node)
		}
	})
}

func lines(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, "\n")
}

// naive judges by the words of the ground rules and nothing that the engine has.
func naive(spec types.RunPolicySpec, node egress.NodeConfig, host string, port uint16, method string) bool {
	covered := func(list []string, unsure bool) bool {
		for _, e := range list {
			if naiveEntry(e, host, port, unsure) {
				return true
			}
		}
		return false
	}
	switch {
	case covered(spec.DeniedDomains, false), covered(node.DenyCeiling, false):
		return false
	case len(node.AllowCeiling) > 0 && !covered(node.AllowCeiling, true):
		return false
	case !spec.AllowAllEgress && !covered(spec.AllowedDomains, true):
		return false
	}
	return naiveMethod(spec.AllowedMethods, method)
}

// naiveEntry matches one entry as text. Of what is no plain ASCII name or IPv4
// address it says unsure: the table tests speak of those.
func naiveEntry(entry, host string, port uint16, unsure bool) bool {
	name, raw := strings.CutSuffix(strings.ToLower(strings.Trim(entry, " \t")), "+tcp")
	name, want, hasPort := strings.Cut(name, ":")
	if strings.ContainsAny(name, "[") || strings.Contains(want, ":") || strings.HasPrefix(host, "[") || strings.ContainsFunc(entry, func(r rune) bool { return r > 126 }) {
		return unsure
	}
	if hasPort && want != strconv.Itoa(int(port)) || raw && !hasPort {
		return false
	}
	name = strings.TrimRight(name, ".")
	if name == "*" {
		return unsure
	}
	below, wildcard := strings.CutPrefix(name, "*.")
	if !wildcard {
		return name == host
	}
	have, labels := strings.Split(host, "."), strings.Split(below, ".")
	return len(have) > len(labels) && strings.Join(have[len(have)-len(labels):], ".") == below
}

func naiveMethod(list []string, method string) bool {
	if method == "TRACE" || method == "TRACK" {
		return false
	}
	for _, m := range list {
		if m = strings.ToUpper(strings.Trim(m, " \t")); m == method || m == "GET" && method == "HEAD" {
			return true
		}
	}
	return len(list) == 0
}
