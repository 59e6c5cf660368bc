package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// gitAsk is one repository that a task wants to reach by the broker.
type gitAsk struct {
	Name string
	Repo string // "org/repo", lower case
	Host string
	// One of the two: a grant of the operator's, or a file beneath the task's
	// secrets folder.
	Grant, File string
	FetchOnly   bool
	PushRefs    []string // empty is the session's own
}

// readGit reads the git blocks. Whose job it is is not known here; see
// admitCredentials.
func (a *ask) readGit(blocks map[string]GitConfig, h HostConfig, f *faults) {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		at := func(option string) string { return "git." + name + "." + option }
		c := blocks[name]
		checkName(f, "git."+name, name)
		g := gitAsk{Name: name, Repo: strings.ToLower(c.Repo), FetchOnly: c.FetchOnly, PushRefs: c.PushRefs, Grant: c.Grant}
		if !gitRepo.MatchString(c.Repo) {
			f.add(at("repo"), c.Repo, `want "org/repo"`, `for instance repo = "acme/web"`)
		}
		if other := seen[g.Repo]; other != "" {
			f.add(at("repo"), c.Repo, fmt.Sprintf("git.%s is for that repository already", other), "remove one of the two")
		}
		seen[g.Repo] = name
		checkRefs(f, at("push_refs"), c.PushRefs)
		switch {
		case c.Grant != "" && c.TokenFile != "":
			f.add(at("grant"), c.Grant, "there is a token_file too, and one of the two is the token", "remove one of the two")
		case c.Grant != "":
			g = operatorsGrant(at, g, c, h, f)
		default:
			g = ownToken(at, g, c, h, f)
		}
		for option, list := range map[string][]string{"egress.deny": a.Deny, "the plugin option deny_domains": h.DenyDomains} {
			host, err := egress.ParseHost(g.Host)
			deny, _ := egress.ParseList(list, egress.ParseDeny)
			if _, hit := deny.Find(host, 443); err == nil && hit {
				f.add(at("host"), g.Host, "it is denied by "+option, "remove the git block")
			}
		}
		a.Git = append(a.Git, g)
	}
}

// ownToken is a repository that the job has a token of its own for.
func ownToken(at func(string) string, g gitAsk, c GitConfig, h HostConfig, f *faults) gitAsk {
	if g.Host = strings.ToLower(c.Host); g.Host == "" {
		g.Host = defaultGitHost
	}
	if !slices.Contains(h.GitHosts, g.Host) {
		f.add(at("host"), g.Host, "the operator does not open this git server to tokens of jobs (plugin option git_hosts)", "use a grant of the operator's")
	}
	rel, err := taskpath.ParseSecret(c.TokenFile)
	switch {
	case c.TokenFile == "":
		f.add(at("grant"), nil, "it is missing", `name a grant of the operator's (plugin option git_grant), or token_file = "secrets/git.token"`)
	case err != nil:
		f.add(at("token_file"), c.TokenFile, err.Error(), `render it with a template block: destination = "secrets/git.token"`)
	}
	g.File = rel
	return g
}

// operatorsGrant is a repository under a grant of the operator's, which bounds
// what the block may say.
func operatorsGrant(at func(string) string, g gitAsk, c GitConfig, h HostConfig, f *faults) gitAsk {
	o, known := h.GitGrants[c.Grant]
	if !known {
		f.add(at("grant"), c.Grant, "the operator has none of that name (plugin option git_grant)", "")
		return g
	}
	g.Host = o.Host
	if c.Host != "" && !strings.EqualFold(c.Host, o.Host) {
		f.add(at("host"), c.Host, fmt.Sprintf("grant %q is for %s", c.Grant, o.Host), "remove the line")
	}
	if !matches(o.Repos, g.Repo) {
		f.add(at("repo"), c.Repo, fmt.Sprintf("grant %q does not cover it (plugin option git_grant, repos)", c.Grant), "it covers "+strings.Join(o.Repos, ", "))
	}
	if !o.Push {
		g.FetchOnly = true
	}
	if len(c.PushRefs) == 0 {
		g.PushRefs = o.PushRefs
	}
	for _, r := range c.PushRefs {
		if !slices.ContainsFunc(o.PushRefs, func(p string) bool { return p == "*" || strings.HasPrefix(r, p) }) {
			f.add(at("push_refs"), r, fmt.Sprintf("grant %q does not let it be pushed to (plugin option git_grant, push_refs)", c.Grant), "leave push_refs out: the grant says where to")
		}
	}
	return g
}

// gitSources gives each repository a grant of its run.
func gitSources(run uuid.UUID, session string, a ask) []source {
	var out []source
	for _, g := range a.Git {
		refs := g.PushRefs
		if len(refs) == 0 {
			refs = []string{pushPrefix(session)}
		}
		out = append(out, source{
			Grant: uuid.NewSHA1(run, []byte("git "+g.Name)), Name: g.Name, File: g.File, GitGrant: g.Grant,
			Repo: g.Repo, Git: &egress.GitRule{Host: g.Host, FetchOnly: g.FetchOnly, PushRefs: refs},
		})
	}
	return out
}

// pushPrefix is what a session's own branches begin with. Names of tasks may
// hold what no ref can.
func pushPrefix(session string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, session)
	return "refs/heads/wardyn/" + safe + "/"
}
