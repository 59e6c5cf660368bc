package dialguard

import (
	"errors"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// NeverDialled says why a host that is an address, or localhost, is refused
// whatever the lists say, for a sentence that begins with the host; "" for one
// that is not. What a name resolves to is known when it is dialled, and so are the
// addresses of the node.
func NeverDialled(h egress.Host) string {
	if h.IsLocalhost() {
		return "is the sandbox itself, which the task reaches without the proxy and without an entry"
	}
	a, ok := h.Addr()
	if !ok {
		return ""
	}
	guard, err := New(egress.NodeConfig{})
	if err != nil {
		return ""
	}
	err = guard.Check(h, a)
	var blocked *BlockedError
	switch {
	case !errors.As(err, &blocked):
		return ""
	case blocked.Openable:
		return "is refused, since " + err.Error() + `; an operator opens a name for it with the plugin option private_hosts { "NAME" = ["` + a.String() + `"] }, and the job allows that name`
	}
	return "is refused, since " + err.Error() + "; no setting opens it"
}
