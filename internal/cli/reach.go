package cli

import (
	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/dialguard"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// ownNames are names that lead to no host from inside a sandbox: the sidecar
// answers every name with its own address.
var ownNames = map[string]string{
	egress.SidecarName:     "is the sandbox's own proxy, which needs no entry",
	"host.docker.internal": `leads to no address of the node; name the service's own host, which an operator opens with the plugin option private_hosts { "NAME" = ["ADDRESS"] }`,
}

// reach says what a task's policy comes to where that is likely not what was
// meant: nothing can be reached, or an entry is refused whatever the list says.
func (j judge) reach(t jobfile.Task, r plugin.Review, out *fileVerdict) {
	if r.ShutIn && len(r.Faults) == 0 {
		out.note(placeOf(t, "egress", ""), "task %q: without egress.allow it reaches nothing beyond its own sandbox: list the hosts it needs in egress { allow = [...] }", t.Name)
	}
	for _, text := range r.Allow {
		e, err := egress.ParseAllow(text)
		if err != nil {
			continue // a fault
		}
		if why := neverReached(e); why != "" {
			out.note(placeOf(t, "egress.allow", text), "task %q: egress.allow: %q %s", t.Name, text, why)
		}
	}
}

// neverReached says why nothing that an entry names is ever dialled; "" when
// that is not so. The address guard of the sidecars decides.
func neverReached(e egress.Entry) string {
	if e.Wildcard {
		return ""
	}
	if why, ok := ownNames[e.Host.Name()]; ok {
		return why
	}
	return dialguard.NeverDialled(e.Host)
}
