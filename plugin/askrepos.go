package plugin

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func (a *ask) readRepos(c TaskConfig, f *faults) {
	allowed, _ := egress.ParseList(c.allowed(), egress.ParseAllow)
	for _, r := range c.Repo {
		spec := driver.RepoSpec{Owner: r.Owner, Name: r.Name, BaseBranch: r.BaseBranch, SessionBranch: r.SessionBranch, Dir: r.Dir}
		switch {
		case r.URL != "" && r.Owner+r.Name != "":
			f.add("repo", r.Name, "it has a url as well as owner and name", "keep one of the two")
			continue
		case r.URL == "":
			if a.gitFor(r.Owner+"/"+r.Name) == nil {
				f.add("repo", r.Owner+"/"+r.Name, "no git block opens it", "add a git block for it; a public repository can be named by its url instead")
			}
			a.Repos = append(a.Repos, spec)
			a.readAuthor(r, f)
			continue
		}
		host, err := repoHost(r.URL)
		if err != nil {
			f.add("repo.url", nil, err.Error(), "for instance https://git.example.com/team/web.git")
			continue
		}
		if e, err := egress.ParseAllow(host); err != nil || !allowed.Covers(e) && !c.allowsAll() {
			f.add("repo.url", r.URL, "egress.allow does not cover its host", "add "+host+" to egress.allow")
		}
		spec.Owner, spec.Name = r.URL[:strings.LastIndex(r.URL, "/")], r.URL[strings.LastIndex(r.URL, "/")+1:]
		a.Repos = append(a.Repos, spec)
		a.readAuthor(r, f)
	}
}

// gitFor is the git block that opens a repository, nil without one.
func (a *ask) gitFor(repo string) *gitAsk {
	i := slices.IndexFunc(a.Git, func(g gitAsk) bool { return g.Repo == strings.ToLower(repo) })
	if i < 0 {
		return nil
	}
	return &a.Git[i]
}

// ownBranches gives clones of repositories that may be pushed to a branch of
// the session's own, below what its pushes are held to.
func ownBranches(repos []driver.RepoSpec, session string, a ask) []driver.RepoSpec {
	out := slices.Clone(repos)
	prefix := strings.TrimPrefix(pushPrefix(session), "refs/heads/")
	for i, r := range out {
		g := a.gitFor(r.Owner + "/" + r.Name)
		if g == nil || g.FetchOnly || len(g.PushRefs) > 0 || strings.HasPrefix(r.SessionBranch, prefix) {
			continue
		}
		out[i].SessionBranch = prefix + cmp.Or(r.SessionBranch, "work")
	}
	return out
}

func (c TaskConfig) allowed() []string {
	if c.Egress == nil {
		return nil
	}
	return c.Egress.Allow
}

func (c TaskConfig) allowsAll() bool { return c.Egress != nil && c.Egress.AllowAll }

// repoHost is the host of a repository that is cloned without a credential.
func repoHost(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return "", fmt.Errorf("want an http or https URL")
	case u.User != nil:
		return "", fmt.Errorf("a credential in a URL would stand in the sandbox for all to read")
	case u.RawQuery != "" || u.Fragment != "" || strings.Trim(path.Base(u.Path), "/.") == "":
		return "", fmt.Errorf("want the URL of a repository")
	}
	return u.Hostname(), nil
}

func (a *ask) readAuthor(r RepoConfig, f *faults) {
	for _, x := range []struct {
		name, value string
		to          *string
	}{{"repo.author_name", r.AuthorName, &a.AuthorName}, {"repo.author_email", r.AuthorEmail, &a.AuthorEmail}} {
		switch {
		case x.value == "":
		case *x.to != "" && *x.to != x.value:
			f.add(x.name, x.value, "another repo block says "+*x.to, "a task has one identity: write the same in both")
		case strings.ContainsAny(x.value, "\n\x00"):
			f.add(x.name, nil, "want one line", "")
		default:
			*x.to = x.value
		}
	}
}
