package driver

import (
	"path"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// brokerURL is where a sandbox reaches repositories by owner and name: its
// sidecar, which adds the credential on the way out.
const brokerURL = "http://wardyn-proxy:3128/wardyn/gh/"

// cloneTimeout bounds the cloning of all of a session's repositories.
const cloneTimeout = 15 * time.Minute

// stages are what a session's sandbox runs before its command, in their order.
func stages(s Spec) []runner.Stage {
	var out []runner.Stage
	if s.Setup != "" {
		out = append(out, script("setup", s.Setup, s.SetupTimeoutSec, runner.SetupFailed))
	}
	if len(s.Repos) > 0 {
		st := runner.Stage{Name: "clone", Timeout: cloneTimeout, Code: runner.CloneFailed}
		for _, r := range s.Repos {
			st.Repos = append(st.Repos, runner.Repo{
				URL: r.URL(), Branch: r.BaseBranch, NewBranch: r.SessionBranch, Dir: r.folder(),
				AuthorName: s.GitAuthorName, AuthorEmail: s.GitAuthorEmail,
			})
		}
		out = append(out, st)
	}
	if s.Init != "" {
		out = append(out, script("init", s.Init, s.InitTimeoutSec, runner.InitFailed))
	}
	return out
}

func script(name, text string, timeoutSec, code int) runner.Stage {
	return runner.Stage{
		Name: name, Script: []byte(text), Timeout: time.Duration(timeoutSec) * time.Second, Code: code,
	}
}

// URL is where the repository is cloned from. An Owner that is a URL itself
// ("https://git.example.com/team") is asked directly, by the sandbox's policy;
// any other is an organisation behind the sidecar's broker.
func (r RepoSpec) URL() string {
	if strings.Contains(r.Owner, "://") {
		return strings.TrimSuffix(r.Owner, "/") + "/" + r.Name
	}
	return brokerURL + r.Owner + "/" + r.Name
}

// folder is where in the sandbox the clone goes: Dir, from the workspace on
// where it is relative, or the repository's name.
func (r RepoSpec) folder() string {
	dir := r.Dir
	if dir == "" {
		dir = strings.TrimSuffix(r.Name, ".git")
	}
	if path.IsAbs(dir) {
		return path.Clean(dir)
	}
	return path.Join(WorkspacePath, dir)
}

// checkRepos judges what would become command lines of git.
func checkRepos(repos []RepoSpec, add func(string, ...any)) {
	seen := map[string]bool{}
	for _, r := range repos {
		dir := r.folder()
		switch {
		case r.Owner == "" || r.Name == "" || strings.ContainsFunc(r.Owner+r.Name, unfit) || strings.Contains(r.Name, "/"):
			add("repo %q/%q: want an owner and a name without blanks", r.Owner, r.Name)
		case strings.HasPrefix(r.BaseBranch, "-") || strings.HasPrefix(r.SessionBranch, "-") || strings.ContainsFunc(r.BaseBranch+r.SessionBranch, unfit):
			add("repo %s/%s: branch %q or %q: no branch has this name", r.Owner, r.Name, r.BaseBranch, r.SessionBranch)
		case !strings.HasPrefix(dir, WorkspacePath+"/"):
			add("repo %s/%s: dir %q: want a folder below %s", r.Owner, r.Name, r.Dir, WorkspacePath)
		case seen[dir]:
			add("repo %s/%s: dir %q: another repository is cloned there", r.Owner, r.Name, dir)
		}
		seen[dir] = true
	}
}

func unfit(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }
