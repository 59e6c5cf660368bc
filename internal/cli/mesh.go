package cli

import (
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

// upstreams are what every task of a group finds in its environment of Consul's
// mesh. The driver refuses them; that is told with the line they are on.
func upstreams(g jobfile.Group, places jobfile.Places) []taskenv.Upstream {
	var out []taskenv.Upstream
	for _, s := range g.Services {
		if s.Connect == nil {
			continue
		}
		for _, u := range s.Connect.Upstreams {
			out = append(out, taskenv.Upstream{Name: u.Name, Port: u.Port})
			places.Add("connect", taskenv.Clean(u.Name), u.Pos)
		}
	}
	return out
}

// mesh says what a group's part in Consul's mesh comes to for the tasks of this
// driver. None of it reaches the driver, so nothing of it is refused there.
func (j judge) mesh(g jobfile.Group, out *fileVerdict) {
	opened, ours := map[string]string{}, false
	for _, t := range g.Tasks {
		if t.Driver != plugin.Name {
			continue
		}
		ours = true
		for _, label := range portsOf(t) {
			opened[label] = t.Name
		}
	}
	for _, s := range g.Services {
		if s.Connect != nil && s.Connect.ProxyDriver == plugin.Name {
			at := s.Connect.ProxyPos
			out.Faults = append(out.Faults, problem{File: at.File, Line: at.Line, Fault: plugin.MeshProxyFault()})
		}
	}
	for _, s := range g.Services {
		c := s.Connect
		if c == nil || !ours {
			continue
		}
		if c.Native {
			out.note(c.Pos, "service %q: connect: native: a sandbox sees no agent of Consul's: its sockets in /alloc/tmp are covered, and its address is opened only by egress.allow with the operator's private_hosts", s.Name)
		}
		if task, ok := opened[s.Port]; c.Sidecar && ok {
			out.note(c.Pos, "service %q: sidecar_service: the proxy is a task of Nomad's own; what it lets in reaches task %q through port %q", s.Name, task, s.Port)
		} else if c.Sidecar {
			out.note(c.Pos, "service %q: sidecar_service: the proxy finds nobody on port %q: make it a label of the group's network and put it into ports of the task's config", s.Name, s.Port)
		}
		if c.Transparent {
			out.note(c.Pos, "service %q: transparent_proxy catches nothing of a sandbox's, which is not in the group's network: allow the hosts it needs in egress.allow", s.Name)
		}
	}
}

// portsOf are the labels that a task's config opens.
func portsOf(t jobfile.Task) []string {
	var out []string
	list, _ := t.Config["ports"].([]any)
	for _, v := range list {
		if label, ok := v.(string); ok && !slices.Contains(out, label) {
			out = append(out, label)
		}
	}
	return out
}
