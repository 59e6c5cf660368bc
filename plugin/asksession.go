package plugin

import (
	"path"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
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
		option := "workspace"
		if c.Workspace == nil {
			option = "repo" // which has the default workspace too, where there is no block
		}
		a.Binds = append(a.Binds, bind{
			Source: defaultWorkspace, Target: driver.WorkspacePath, Yields: c.Workspace == nil && len(c.Repo) == 0, Option: option,
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
