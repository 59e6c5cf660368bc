package plugin

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// sessionAsk is what a task asked for around its command.
type sessionAsk struct {
	Setup *setupAsk
	Init  *scriptAsk
	Repos []driver.RepoSpec
	// AuthorName and AuthorEmail are the identity of commits in all clones.
	AuthorName, AuthorEmail string

	Workspace string // name of a kept workspace; "" is a folder of the task's
	Home      *HomeConfig
}

// defaultWorkspace is the workspace of a task that names none.
var defaultWorkspace = taskpath.Source{Path: "local/workspace"}

// readSession reads what comes before the command and what outlives it.
func (a *ask) readSession(c TaskConfig, r SessionRules, f *faults) {
	a.readSetup(c.Setup, c.Load != "", f)
	a.readInit(c.Init, f)
	a.readRepos(c, f)
	a.readWorkspace(c, r, f)
	a.readHome(c.Home, r, f)
	if a.WorkDir == "" && (c.Workspace != nil || len(a.Repos) > 0 || a.Idle) && a.hasWorkspace() {
		a.WorkDir = driver.WorkspacePath
	}
}

// readInit tells init as other drivers have it, a switch, from a hook.
func (a *ask) readInit(v any, f *faults) {
	on, isBool := v.(bool)
	switch {
	case v == nil, isBool && on, v == "true":
	case isBool, v == "false":
		a.note("init = false has no effect: the sandbox always has an init of its own")
	default:
		a.Init = scriptBlock("init", v, f)
	}
}

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

func (a *ask) readWorkspace(c TaskConfig, r SessionRules, f *faults) {
	if c.Workspace != nil {
		a.Workspace = c.Workspace.Volume
		if msg := volumeName(a.Workspace); a.Workspace != "" && msg != "" {
			f.add("workspace.volume", a.Workspace, msg, "")
		}
		if a.Workspace != "" && r.NoWorkspace {
			f.add("workspace.volume", a.Workspace, "the operator does not allow it (plugin option sessions.workspace)", "remove the line: the workspace then lives with the allocation")
		}
	}
	taken := slices.ContainsFunc(a.Binds, func(b bind) bool { return overlaps(b.Target, driver.WorkspacePath) }) ||
		slices.ContainsFunc(a.Kept, func(v keptVolume) bool { return overlaps(v.Target, driver.WorkspacePath) }) ||
		slices.ContainsFunc(a.Tmpfs, func(t runner.Tmpfs) bool { return t.Target == driver.WorkspacePath })
	switch {
	case taken && c.Workspace != nil:
		f.add("workspace", nil, "volumes mount something at "+driver.WorkspacePath+" already", "remove one of the two")
	case !taken && a.Workspace == "":
		a.Binds = append(a.Binds, bind{
			Source: defaultWorkspace, Target: driver.WorkspacePath, Yields: c.Workspace == nil && len(c.Repo) == 0,
		})
	}
}

// hasWorkspace: something of the driver's or of the author's is at the
// workspace's path.
func (a *ask) hasWorkspace() bool {
	return a.Workspace != "" || slices.ContainsFunc(a.Binds, func(b bind) bool { return b.Target == driver.WorkspacePath }) ||
		slices.ContainsFunc(a.Kept, func(v keptVolume) bool { return v.Target == driver.WorkspacePath })
}

func (a *ask) readHome(h *HomeConfig, r SessionRules, f *faults) {
	if h == nil {
		return
	}
	if r.NoHome {
		f.add("home", h.Volume, "the operator does not allow it (plugin option sessions.home)", "remove the block")
	}
	if msg := volumeName(h.Volume); msg != "" {
		f.add("home.volume", h.Volume, msg, "")
	}
	if err := checkTarget(h.Path); err != nil {
		f.add("home.path", h.Path, err.Error(), "for instance /home/agent")
	} else if overlaps(h.Path, driver.WorkspacePath) {
		f.add("home.path", h.Path, "the workspace is at "+driver.WorkspacePath, "choose another place")
	}
	a.Home = &HomeConfig{Volume: h.Volume, Path: path.Clean(h.Path)}
	if a.mountsAt(a.Home.Path) {
		f.add("home.path", h.Path, "something else is mounted there already", "remove one of the two")
	}
}

// volumeName judges the name of something that is kept.
func volumeName(name string) string {
	switch {
	case name == "":
		return "it has no name"
	case len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "want a name of at most 128 characters on one line"
	}
	return ""
}

// overlaps reports whether one of two clean paths is the other or below it.
func overlaps(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// applySession puts what a task asked for into the value that is handed down.
// Kept things are named by the namespace too, which no job can choose.
func applySession(s *driver.Spec, t *driverpb.TaskConfig, a ask) {
	s.Repos, s.GitAuthorName, s.GitAuthorEmail = ownBranches(a.Repos, SessionID(t), a), a.AuthorName, a.AuthorEmail
	if a.Init != nil {
		s.Init, s.InitTimeoutSec = a.Init.Text, int(a.Init.Timeout.Seconds())
	}
	if a.Workspace != "" {
		s.Sandbox.Task.Mounts = append(s.Sandbox.Task.Mounts, runner.TaskMount{
			Volume: driver.NamedWorkspace(t.GetNamespace(), a.Workspace), Target: driver.WorkspacePath,
		})
	}
	if a.Home != nil {
		s.Home = &driver.HomeMount{Volume: driver.NamedHome(t.GetNamespace(), a.Home.Volume), Path: a.Home.Path}
	}
}

// checkKept refuses to name what is kept for a client that does not say whose
// it is.
func (a *ask) checkKept(t *driverpb.TaskConfig, f *faults) {
	if t.GetNamespace() == "" && (a.Workspace != "" || a.Home != nil) {
		f.add("workspace, home", nil, "the Nomad client does not say in which namespace the job is, so nothing can be kept for it", "use a newer client, or leave the volume out")
	}
}

// isSnapshot reports whether an image's name is a snapshot's; whether the job
// may use it is judged where its namespace is known.
func isSnapshot(name string) bool {
	return strings.Count(name, "/") == 2 && strings.HasPrefix(name, "wardyn-snap/")
}

// checkSnapshot lets a job start from snapshots of its own namespace.
func checkSnapshot(t *driverpb.TaskConfig, a ask, f *faults) {
	own := driver.NamedSnapshot(t.GetNamespace(), "")
	if isSnapshot(a.Image) && (t.GetNamespace() == "" || !strings.HasPrefix(a.Image, own)) {
		f.add("image", a.Image, "it is a snapshot of another namespace", "the job's own begin with "+own)
	}
}

// giveWay drops the default workspace where a volume_mount takes its place.
func (a *ask) giveWay(mounts []*driverpb.Mount) {
	if slices.ContainsFunc(mounts, func(m *driverpb.Mount) bool { return overlaps(m.GetTaskPath(), driver.WorkspacePath) }) {
		a.Binds = slices.DeleteFunc(a.Binds, func(b bind) bool { return b.Yields })
	}
}

// stageNames are the stages that run in a task's own sandbox.
func stageNames(s driver.Spec, setup bool) (names []string) {
	if setup {
		names = append(names, "setup")
	}
	if len(s.Repos) > 0 {
		names = append(names, "clone")
	}
	if s.Init != "" {
		names = append(names, "init")
	}
	return names
}
