package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// injection is one credential that a task wants in its requests to one host.
type injection struct {
	Name, Host, Header, Format string
	// One of the two says where the secret is: a file beneath the task's
	// secrets folder, or a credential of the operator's.
	File, Credential string
}

// readInject reads the inject blocks. Whose job it is is not known here; see
// admitCredentials.
func (a *ask) readInject(blocks map[string]InjectConfig, h HostConfig, f *faults) {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		at := func(option string) string { return "inject." + name + "." + option }
		c := blocks[name]
		checkName(f, "inject."+name, name)
		in := injection{Name: name, Header: c.Header, Format: c.Format, Credential: c.Credential}
		in.Host = a.injectHost(at("host"), c, h, f)
		if other := seen[in.Host]; other != "" && in.Host != "" {
			f.add(at("host"), c.Host, fmt.Sprintf("inject %q is for that host already, and a host has one credential", other), "remove one of the two")
		}
		seen[in.Host] = name
		switch {
		case c.SecretFile != "" && c.Credential != "":
			f.add(at("credential"), c.Credential, "there is a secret_file too, and one of the two is the secret", "remove one of the two")
		case c.Credential != "":
			in = operatorsRule(at, in, h, f)
		case c.SecretFile == "":
			f.add(at("secret_file"), nil, "it is missing", `name a file below secrets/, for instance secret_file = "secrets/api.key", or a credential of the operator's`)
		default:
			rel, err := taskpath.ParseSecret(c.SecretFile)
			if err != nil {
				f.add(at("secret_file"), c.SecretFile, err.Error(), `render it with a template block: destination = "secrets/api.key"`)
			}
			in.File = rel
		}
		checkHeader(f, at("header"), in.Header)
		checkFormat(f, at("format"), in.Format)
		if in.Format == "" {
			in.Format = usualFormat(in.Header)
		}
		a.Inject = append(a.Inject, in)
		a.noteCleartext(in, h)
	}
}

// usualFormat is how most hosts want a header.
func usualFormat(header string) string {
	if strings.EqualFold(header, "Authorization") {
		return "Bearer {secret}"
	}
	return "{secret}"
}

// injectHost is a host that a credential may go to: named exactly, and allowed
// exactly, for otherwise whoever has a name below it could be sent it.
func (a *ask) injectHost(field string, c InjectConfig, h HostConfig, f *faults) string {
	text := c.Host
	host, err := egress.ParseHost(text)
	if text == "" || err != nil || host.Name() == "" || host.IsLocalhost() {
		f.add(field, text, "want the exact name of a host", `for instance host = "api.example.com"`)
		return ""
	}
	allow, _ := egress.ParseList(a.Allow, egress.ParseAllow)
	named := func(d egress.Authority) bool { return allow.HasExact(host, d.Port) }
	if !allow.HasExact(host, 443) && !slices.ContainsFunc(h.inClear(c.Credential, host.String()), named) {
		f.add(field, text, "egress.allow does not name it exactly", fmt.Sprintf("add %q or %q to egress.allow", host, host.String()+":443"))
	}
	for option, list := range map[string][]string{"egress.deny": a.Deny, "the plugin option deny_domains": h.DenyDomains} {
		deny, _ := egress.ParseList(list, egress.ParseDeny)
		if _, hit := deny.Find(host, 443); hit {
			f.add(field, text, "it is denied by "+option, "remove the inject block")
		}
	}
	return host.String()
}

// operatorsRule is a rule with a credential of the operator's: its hosts and
// headers bound what the rule may say.
func operatorsRule(at func(string) string, in injection, h HostConfig, f *faults) injection {
	c, known := h.Credentials[in.Credential]
	if !known {
		f.add(at("credential"), in.Credential, "the operator has none of that name (plugin option credential)", "")
		return in
	}
	if in.Host != "" && !slices.Contains(c.Hosts, in.Host) {
		f.add(at("host"), in.Host, fmt.Sprintf("credential %q is not for that host (plugin option credential, hosts)", in.Credential), "it is for "+strings.Join(c.Hosts, ", "))
	}
	if in.Header == "" && len(c.Headers) == 1 {
		in.Header = c.Headers[0]
	}
	if in.Header != "" && !slices.ContainsFunc(c.Headers, func(x string) bool { return strings.EqualFold(x, in.Header) }) {
		f.add(at("header"), in.Header, fmt.Sprintf("credential %q does not go into that header (plugin option credential, headers)", in.Credential), "it goes into "+strings.Join(c.Headers, ", "))
	}
	if in.Format == "" {
		in.Format = c.Format
	}
	return in
}

// admitCredentials refuses credentials of the operator's that are not for the
// job.
func admitCredentials(namespace, job string, a ask, h HostConfig, f *faults) {
	for _, in := range a.Inject {
		c, known := h.Credentials[in.Credential]
		if !known {
			continue
		}
		if why := c.For.admits(namespace, job); why != "" {
			f.add("inject."+in.Name+".credential", in.Credential, why, "ask the operator (plugin option credential, namespaces and jobs)")
		}
	}
	for _, g := range a.Git {
		o, known := h.GitGrants[g.Grant]
		if !known {
			continue
		}
		if why := o.For.admits(namespace, job); why != "" {
			f.add("git."+g.Name+".grant", g.Grant, why, "ask the operator (plugin option git_grant, namespaces and jobs)")
		}
	}
}

// readReview reads what becomes of a host that no list speaks of.
func (a *ask) readReview(first string, h HostConfig, f *faults) {
	a.FirstUse = types.AlwaysDeny
	switch m := types.FirstUseMode(first); {
	case m == "" || m == types.AlwaysDeny:
	case !m.RaisesApproval():
		f.add("egress.first_use", first, "no such mode", `write "always_deny", "deny_with_review" or "wait_for_review"`)
	case h.Approvals == ApprovalsOff:
		f.add("egress.first_use", first, "the operator lets nobody decide about first uses (plugin option approvals)", "list the hosts in egress.allow")
	default:
		a.FirstUse = m
	}
}

// readLearn reads whether what no list speaks of passes and is only recorded.
func (a *ask) readLearn(on bool, h HostConfig, f *faults) {
	if a.Learn = on; !on {
		return
	}
	if !h.AllowLearn {
		f.add("egress.learn", true, "the operator does not allow it (plugin option allow_learn)", "list the hosts in egress.allow")
	}
	if a.FirstUse.RaisesApproval() {
		f.add("egress.first_use", string(a.FirstUse), "in learn mode nobody is asked", "remove one of the two")
	}
	a.note("Learn mode: hosts that no list speaks of are reached, and recorded as what would be denied; nomad-driver-wardyn egress suggest prints the list")
}

// readIntercept reads the hosts whose TLS the job wants opened.
func (a *ask) readIntercept(list []string, h HostConfig, f *faults) {
	ceiling, _ := egress.ParseList(h.AllowIntercept, egress.ParseCeiling)
	for _, name := range exactHosts(f, "egress.intercept", list) {
		host, _ := egress.ParseHost(name)
		if _, within := ceiling.Find(host, 443); !within {
			f.add("egress.intercept", name, "the operator does not allow it (plugin option allow_intercept)", "remove it")
			continue
		}
		a.Intercept = append(a.Intercept, name)
	}
}

// shutIn reports whether a task that has a network can reach nothing through it.
func (a *ask) shutIn() bool {
	return !a.NoNetwork && len(a.Allow) == 0 && !a.AllowAll && !a.Learn && !a.FirstUse.RaisesApproval() && len(a.Git) == 0
}
