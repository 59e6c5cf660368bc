package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// before is what runs ahead of the command.
func (s *settingList) before(a ask, pl plan) {
	s.section = "before the command"
	if pl.Setup != nil {
		kept := "kept as an image"
		if pl.Setup.Private {
			kept = "this task's alone"
		}
		s.add("setup", fmt.Sprintf("%s, run as root in a sandbox of its own; its result is %s", pl.Setup.what(), kept), ByAuthor, "setup")
	}
	for _, r := range pl.Spec.Repos {
		s.add("clone", strings.Trim(r.Owner+"/"+r.Name, "/"), ByAuthor, "repo")
	}
	if a.Init != nil {
		s.add("init", a.Init.what(), ByAuthor, "init")
	}
}

// ports are the ones that are opened, each told once.
func (s *settingList) ports(g given) {
	s.section = "ports"
	told := map[string]bool{}
	for _, p := range g.Ports {
		if told[p.Label] {
			continue
		}
		told[p.Label] = true
		s.add(p.Label, fmt.Sprintf("leads to port %d in the sandbox", p.To), ByAuthor, "ports")
	}
}

// mounts are told by their source in the task's directory, not by the place
// where that is staged.
func (s *settingList) mounts(t *driverpb.TaskConfig, j judged, pl plan) {
	s.section = "mounts"
	asked, volumes := map[string]bind{}, map[string]bool{}
	for _, b := range pl.Stage {
		asked[b.Target] = b
	}
	for _, m := range j.given.Mounts {
		volumes[m.Target] = true
	}
	for _, m := range pl.Spec.Sandbox.Task.Mounts {
		value, by, why := strings.TrimPrefix(m.Source, t.GetAllocDir()+"/"), ByDefault, ""
		switch b, own := asked[m.Target]; {
		case own && b.Host != "":
			value, by, why = b.Host, ByAuthor, b.Option+", which the plugin option volumes allows"
		case own && b.Yields:
			value = b.Source.String()
		case own:
			value, by, why = b.Source.String(), ByAuthor, b.Option
		case m.Volume != "":
			kind, _, name := driver.KeptName(m.Volume)
			value, by, why = "kept as "+name, ByAuthor, kind
		case volumes[m.Target]:
			by, why = ByAuthor, "volume_mount"
		case m.Target == "/secrets":
			by, why = ByAuthor, "mount_secrets"
		}
		s.add(m.Target, value+readOnly(m.ReadOnly), by, why)
	}
	if home := pl.Spec.Home; home != nil {
		_, _, name := driver.KeptName(home.Volume)
		s.add(home.Path, "kept as "+name, ByAuthor, "home")
	}
	for _, m := range pl.Spec.Sandbox.Task.Tmpfs {
		s.tmpfs(m, j.ask.tmpfsBy[m.Target])
	}
}

// tmpfs tells of a folder in memory; option is the job's that asks for it, if
// one does.
func (s *settingList) tmpfs(m runner.Tmpfs, option string) {
	value := fmt.Sprintf("%d MiB of memory", m.SizeMiB)
	if m.ReadOnly {
		value = "empty (read-only)"
	}
	if option != "" {
		s.add(m.Target, value, ByAuthor, option)
		return
	}
	s.add(m.Target, value, ByDefault, "")
}

func readOnly(yes bool) string {
	if yes {
		return " (read-only)"
	}
	return ""
}

// environment names the variables and says which are left out.
func (s *settingList) environment(t *driverpb.TaskConfig, env map[string]string) {
	s.section = "environment"
	by := map[Party][]string{}
	for _, name := range slices.Sorted(maps.Keys(t.GetEnv())) {
		who := ByAuthor
		if strings.HasPrefix(name, "NOMAD_") || isToken(name) {
			who = ByNomad
		}
		if _, there := env[name]; !there || isProxy(name) {
			s.add("left out", name, ByDefault, leftOut(name))
			continue
		}
		by[who] = append(by[who], name)
	}
	for _, who := range []Party{ByAuthor, ByNomad} {
		if len(by[who]) > 0 {
			s.add("names", strings.Join(by[who], ", "), who, "")
		}
	}
	s.add("names", "HTTP_PROXY, HTTPS_PROXY, NO_PROXY and their kin", ByDefault, "")
}

func leftOut(name string) string {
	switch {
	case isToken(name):
		return "expose_tokens is not set"
	case isProxy(name):
		return ownProxy
	}
	return "mount_secrets is not set"
}
