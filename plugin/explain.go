package plugin

import (
	"fmt"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func showExplanation(c verbCall) error {
	if len(c.args) != 1 {
		return &useError{"explain wants one HOST or HOST:PORT"}
	}
	a, err := egress.ParseAuthority(c.args[0], 443)
	if err != nil {
		return &useError{err.Error()}
	}
	host, _ := c.plugin.options()
	v := explain(c.task.state, host, a)
	if c.json {
		return writeJSON(c.out, v)
	}
	fmt.Fprintf(c.out, "%s %s: %s\n", v.Verdict, a, v.Reason)
	if v.Change != "" {
		fmt.Fprintf(c.out, "to change it: %s\n", v.Change)
	}
	return nil
}

// explanation is what explain shows.
type explanation struct {
	Verdict egress.Decision `json:"verdict"`
	Reason  string          `json:"reason"`
	Change  string          `json:"change,omitempty"`
}

// explain judges a host by the lists alone, in the proxy's order. What it
// resolves to is judged by the proxy, request by request.
func explain(s state, h HostConfig, a egress.Authority) explanation {
	find := func(entries []string, parse func(string) (egress.Entry, error)) (egress.Entry, bool) {
		list, _ := egress.ParseList(entries, parse)
		return list.Find(a.Host, a.Port)
	}
	if e, ok := find(h.DenyDomains, egress.ParseDeny); ok {
		return explanation{egress.Deny, fmt.Sprintf("the operator denies %s to every task", e), "the plugin option deny_domains"}
	}
	if e, ok := find(s.Deny, egress.ParseDeny); ok {
		return explanation{egress.Deny, fmt.Sprintf("the job denies %s", e), "egress.deny in the job"}
	}
	if _, ok := find(h.AllowDomains, egress.ParseCeiling); !ok && len(h.AllowDomains) > 0 {
		return explanation{egress.Deny, "the operator's ceiling does not cover it", "the plugin option allow_domains"}
	}
	if e, ok := find(s.Allow, egress.ParseAllow); ok {
		why := fmt.Sprintf("the job allows %s", e)
		if len(s.Methods) > 0 && !slices.Contains(s.Methods, "CONNECT") {
			why += ", by plain HTTP only, since egress.methods has no CONNECT"
		}
		return explanation{egress.Allow, why, ""}
	}
	if s.AllowAll {
		return explanation{egress.Allow, "the job allows everything that is not denied", ""}
	}
	return explanation{egress.Deny, "the job does not list it", fmt.Sprintf("add %q to egress.allow in the job", a.Host)}
}
