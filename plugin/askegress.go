package plugin

import (
	"regexp"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// readEgress reads an egress block, within the operator's ceiling and denials.
func (a *ask) readEgress(c EgressConfig, h HostConfig, f *faults) {
	a.Allow, a.Deny, a.AllowAll = c.Allow, c.Deny, c.AllowAll
	closed, _ := egress.ParseList(h.DenyDomains, egress.ParseDeny)
	for _, e := range c.Allow {
		entry, err := egress.ParseAllow(e)
		switch {
		case err != nil:
			f.add("egress.allow", nil, err.Error(), "")
		case egress.CheckCeiling(e, h.AllowDomains) != nil:
			f.add("egress.allow", nil, egress.CheckCeiling(e, h.AllowDomains).Error(), "the ceiling is the plugin option allow_domains")
		case closed.Covers(entry):
			f.add("egress.allow", e, "the operator denies it to every task (plugin option deny_domains)", "remove it")
		}
	}
	if _, err := egress.RawPorts(c.Allow); err != nil {
		f.add("egress.allow", nil, err.Error(), "let the other go through the proxy, without +tcp, or on another port")
	}
	for _, e := range c.Deny {
		if err := egress.ValidateDeny(e); err != nil {
			f.add("egress.deny", nil, err.Error(), "")
		}
	}
	if c.AllowAll && !h.AllowAllEgress {
		f.add("egress.allow_all", true, "the operator does not allow it (plugin option allow_all_egress)", "list the hosts in egress.allow")
	}
	a.readReview(c.FirstUse, h, f)
	a.readLearn(c.Learn, h, f)
	a.readIntercept(c.Intercept, h, f)
	a.readMethods(c.Methods, f)
}

var method = regexp.MustCompile(`^[A-Z-]{1,32}$`)

func (a *ask) readMethods(list []string, f *faults) {
	for _, m := range list {
		up := strings.ToUpper(strings.TrimSpace(m))
		switch {
		case !method.MatchString(up):
			f.add("egress.methods", m, "that is no HTTP method", "")
		case up == "TRACE" || up == "TRACK":
			f.add("egress.methods", m, "this method is refused always", "remove it")
		default:
			a.Methods = append(a.Methods, up)
		}
	}
	if len(a.Methods) > 0 && !slices.Contains(a.Methods, "CONNECT") {
		a.note("egress.methods has no CONNECT, so the task cannot use HTTPS")
	}
}
