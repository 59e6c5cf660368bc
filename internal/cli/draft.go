package cli

import (
	"fmt"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// view is the node that tasks are judged for: any, when none was asked.
func (j judge) view() plugin.NodeView {
	if j.node != nil {
		return j.node.View
	}
	return plugin.NodeView{Unasked: true, Classes: types.Classes()}
}

// draftOf is a task with the environment that a client would give it, as far
// as the file tells.
func draftOf(job *jobfile.Job, g jobfile.Group, t jobfile.Task) plugin.Draft {
	e := taskenv.Task{
		JobID: job.ID, JobName: job.Name, Namespace: job.Namespace, Group: g.Name, Name: t.Name, AllocID: "draft",
		CPU: int64(t.Resources.CPU), MemoryMB: int64(t.Resources.MemoryMB), MemoryMaxMB: int64(t.Resources.MemoryMaxMB),
		Meta: t.Meta, Env: t.Env, Upstreams: upstreams(g, t.Places),
	}
	if n := t.Resources.Cores; n > 0 {
		e.Cores = fmt.Sprintf("0-%d", n-1)
	}
	var ports []plugin.DraftPort
	if g.Network != nil {
		for _, p := range g.Network.Ports {
			e.Ports = append(e.Ports, taskenv.Port{Label: p.Label, Value: int32(max(p.Static, 1)), To: int32(p.To), HostIP: loopback})
			ports = append(ports, plugin.DraftPort{Label: p.Label, Static: p.Static, To: max(p.To, 0)})
		}
	}
	bridged := g.Network != nil && (g.Network.Mode == "bridge" || strings.HasPrefix(g.Network.Mode, "cni/"))
	d := plugin.Draft{
		Job: job.ID, Namespace: job.Namespace, Group: g.Name, Name: t.Name, User: t.User,
		Config: t.Config, Env: taskenv.Build(host.LocalNode().Node, e, taskenv.ImageDirs), Dispatched: job.Dispatched,
		CPU: e.CPU, Memory: e.MemoryMB, MemoryMax: e.MemoryMaxMB, Cores: e.Cores, Ports: ports,
		Bridged: bridged, DNS: g.Network != nil && g.Network.DNS != nil,
	}
	d.OpenPorts, d.OpenEnv = g.OpenPorts, t.OpenEnv
	d.Devices = t.Places.Labels("resources.device")
	for _, m := range t.Mounts {
		d.Mounts = append(d.Mounts, plugin.DraftMount{Target: m.Destination, ReadOnly: m.ReadOnly, Propagation: m.Propagation})
	}
	for _, id := range t.Identities {
		if id.Env {
			d.Tokens = append(d.Tokens, id.Variable())
		}
		if name, ok := inSecrets(id.File); ok {
			d.Secrets = append(d.Secrets, name)
		}
	}
	for _, tpl := range t.Templates {
		d.OpenEnv = d.OpenEnv || tpl.Env
		if name, ok := inSecrets(tpl.Destination); ok && !tpl.Env {
			d.Secrets = append(d.Secrets, name)
		}
	}
	for _, block := range []string{"vault", "consul", "identity", "secret", "resources.device"} {
		_, there := t.Places[block]
		d.OpenEnv = d.OpenEnv || there
	}
	return d
}
