package jobfile

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func (p *parser) task(b *hclsyntax.Block, g Group, restart Restart) (Task, bool) {
	name, ok := p.label(b)
	if !ok {
		return Task{}, false
	}
	s := p.open(fmt.Sprintf("task %q", name), b.Body, taskRules)
	t := Task{Name: name, KillTimeout: 5 * time.Second, Pos: posOf(b.DefRange()), OpenEnv: len(s.dynamic) > 0}
	if s.required(b, "driver") && s.read("driver", &t.Driver) && t.Driver != "wardyn" {
		p.refuse(s.attrs["driver"].Range(), `%s: driver = %q is not supported by run: it has the driver "wardyn" alone`, s.where, t.Driver)
	}
	s.read("user", &t.User)
	s.read("leader", &t.Leader)
	s.read("kill_signal", &t.KillSignal)
	s.duration("kill_timeout", &t.KillTimeout)
	t.Env = s.pairs("env", nil)
	t.Meta = s.pairs("meta", g.Meta)
	t.Resources = p.resources(s)
	t.Logs = p.logs(s)
	t.Restart = p.restart(s, restart)
	t.Lifecycle = p.lifecycle(s)
	t.Config = p.driverConfig(s, b)
	t.Mounts, t.PayloadFile = p.volumeMounts(s, g), p.payloadFile(s)
	t.Places, t.Unread = p.places(b), unread(s, t.Config)
	t.Identities = p.identities(s)
	_, t.Checks = p.services(s, checkHome{task: name, tasks: []string{name}, ports: g.ports(), openPorts: g.OpenPorts || ownNetwork(s)})
	for _, tb := range s.blocks["template"] {
		t.Templates = append(t.Templates, p.template(s.where, tb))
	}
	return t, true
}

// ownNetwork tells whether a task has ports beside its group's, in the old way.
func ownNetwork(s section) bool {
	for _, r := range s.blocks["resources"] {
		for _, inner := range r.Body.Blocks {
			if inner.Type == "network" || inner.Type == "dynamic" {
				return true
			}
		}
	}
	return false
}

// unread lists what a config block holds and its value does not.
func unread(s section, config map[string]any) []string {
	var names []string
	for _, b := range s.blocks["config"] {
		for _, a := range inOrder(b.Body.Attributes) {
			if _, ok := config[a.Name]; !ok {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

func (p *parser) resources(s section) Resources {
	r := Resources{CPU: 100, MemoryMB: 300}
	b := s.single("resources")
	if b == nil {
		return r
	}
	rs := p.open(s.where+": resources", b.Body, resourceRules)
	rs.whole("cpu", &r.CPU, 1)
	rs.whole("cores", &r.Cores, 1)
	rs.whole("memory", &r.MemoryMB, 1)
	rs.whole("memory_max", &r.MemoryMaxMB, -1)
	if rs.attrs["cpu"] != nil && rs.attrs["cores"] != nil {
		p.fault(rs.attrs["cores"].Range(), "%s: cpu and cores exclude each other; keep one", rs.where)
	}
	if r.MemoryMaxMB > 0 && r.MemoryMaxMB < r.MemoryMB {
		p.fault(rs.attrs["memory_max"].Range(), "%s: memory_max = %d is below memory = %d", rs.where, r.MemoryMaxMB, r.MemoryMB)
	}
	return r
}

func (p *parser) logs(s section) Logs {
	l := Logs{MaxFiles: 10, MaxFileSizeMB: 10}
	b := s.single("logs")
	if b == nil {
		return l
	}
	ls := p.open(s.where+": logs", b.Body, logRules)
	ls.whole("max_files", &l.MaxFiles, 1)
	ls.whole("max_file_size", &l.MaxFileSizeMB, 1)
	ls.read("disabled", &l.Disabled)
	enabled := true
	if ls.read("enabled", &enabled) && !enabled {
		l.Disabled = true
	}
	return l
}

func (p *parser) lifecycle(s section) *Lifecycle {
	b := s.single("lifecycle")
	if b == nil {
		return nil
	}
	l := &Lifecycle{}
	ls := p.open(s.where+": lifecycle", b.Body, lifecycleRules)
	if ls.required(b, "hook") {
		ls.oneOf("hook", &l.Hook, "prestart", "poststart", "poststop")
	}
	ls.read("sidecar", &l.Sidecar)
	return l
}
