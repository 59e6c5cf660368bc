package plugin

import (
	"regexp"
	"strings"
)

// GitHost is what the operator decided about git.
type GitHost struct {
	// GitHosts are the servers that jobs may use tokens of their own with.
	GitHosts []string
	// GitGrants are tokens of the operator's, by name.
	GitGrants map[string]GitGrant
}

// GitGrant opens repositories of one server with one token.
type GitGrant struct {
	Host      string
	Repos     []string // "org/repo", or "org/*"
	TokenFile string
	Push      bool
	PushRefs  []string // prefixes of refs; empty is the session's own, "*" all
	For       tenants
}

// defaultGitHost is where repositories are when nothing says otherwise.
const defaultGitHost = "github.com"

func gitHost(f *faults, c GitPluginConfig) GitHost {
	return GitHost{
		GitHosts:  exactHosts(f, "git_hosts", c.GitHosts),
		GitGrants: readNamed(f, c.GitGrant, gitGrant),
	}
}

func gitGrant(f *faults, name string, c GitGrantConfig) GitGrant {
	at := func(option string) string { return "git_grant." + name + "." + option }
	checkName(f, "git_grant."+name, name)
	checkHostFile(f, at("token_file"), c.TokenFile, true)
	if c.Host == "" {
		c.Host = defaultGitHost
	}
	g := GitGrant{TokenFile: c.TokenFile, Push: c.Push, PushRefs: c.PushRefs, For: readTenants(f, at, c.Namespaces, c.Jobs)}
	if hosts := exactHosts(f, at("host"), []string{c.Host}); len(hosts) > 0 {
		g.Host = hosts[0]
	}
	if len(c.Repos) == 0 {
		f.add(at("repos"), nil, "it is missing", `list repositories, for instance ["acme/web", "acme/*"]`)
	}
	for _, r := range c.Repos {
		if !gitRepo.MatchString(strings.TrimSuffix(r, "*") + strings.Repeat("x", strings.Count(r, "*"))) {
			f.add(at("repos"), r, `want "org/repo" or "org/*"`, "")
		}
		g.Repos = append(g.Repos, strings.ToLower(r))
	}
	if len(c.PushRefs) > 0 && !c.Push {
		f.add(at("push_refs"), c.PushRefs, "the grant is for fetching only", "add push = true")
	}
	checkRefs(f, at("push_refs"), c.PushRefs)
	return g
}

// gitRepo is a repository as the broker's route names it.
var gitRepo = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

// checkRefs judges prefixes of full ref names. "*" alone lifts all limits.
func checkRefs(f *faults, field string, refs []string) {
	for _, r := range refs {
		switch {
		case r == "*" && len(refs) == 1:
		case !strings.HasPrefix(r, "refs/") || strings.ContainsFunc(r, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("~^:?*[\\", c) }):
			f.add(field, r, "want the beginning of full names of refs", `for instance "refs/heads/agents/"; "*" alone is every ref`)
		}
	}
}
