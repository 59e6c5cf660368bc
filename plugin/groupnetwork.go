package plugin

import (
	"fmt"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// noteNetwork tells what a task of another driver would have of its group's
// network without a word in its config, and a sandbox has not: it is in none.
func (a *ask) noteNetwork(t *driverpb.TaskConfig) {
	if a.NoNetwork {
		return
	}
	if d := t.GetDns(); len(d.GetServers())+len(d.GetSearches())+len(d.GetOptions()) > 0 {
		a.note("The dns block of the group's network has no effect: the sandbox's resolver is its proxy, which looks up what egress.allow lists")
	}
	var closed []string
	for _, p := range t.GetResources().GetPorts() {
		if !strings.HasPrefix(p.GetLabel(), meshPorts) {
			closed = append(closed, fmt.Sprintf("%q", p.GetLabel()))
		}
	}
	if len(a.Ports) == 0 && len(closed) > 0 && namespaceOf(t.GetNetworkIsolationSpec()) != "" {
		a.note("None of the group's ports leads to the task, which is not in the group's network; of " + strings.Join(closed, ", ") + " list those that it serves in ports of its config")
	}
}

// meshPorts is what the labels of ports begin with that Nomad makes for the
// proxies of Consul's mesh.
const meshPorts = "connect-proxy-"

// GroupHostnameFault is what is wrong with a hostname in the network block of a
// group that has a task of this driver: the client ends the allocation before
// any driver hears of it, without an event.
func GroupHostnameFault(name string) Fault {
	return Fault{
		Field: "network.hostname", Value: shown(name),
		Reason: "Nomad starts no group with it that has a task of this driver",
		Fix:    "write hostname in the config of the tasks",
	}
}
