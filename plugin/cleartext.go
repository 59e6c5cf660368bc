package plugin

import (
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// readCleartext reads where a credential of the operator's may travel without
// TLS: "host:port", or a host for port 80, each one of the credential's hosts.
func readCleartext(f *faults, field string, list, hosts []string) []egress.Authority {
	var out []egress.Authority
	for _, text := range list {
		a, err := egress.ParseAuthority(text, 80)
		switch {
		case err != nil || a.Host.IsLocalhost():
			f.add(field, text, "want host:port, or a host for port 80", `for instance "legacy.example.com:8080"`)
		case a.Port == 443:
			f.add(field, text, "port 443 carries TLS and nothing else", "remove it")
		case !slices.Contains(hosts, a.Host.String()):
			f.add(field, text, "the credential is not for that host (hosts of the same block)", "it is for "+strings.Join(hosts, ", "))
		default:
			out = append(out, a)
		}
	}
	return out
}

// inClear are the destinations on a host where a credential of the operator's
// may travel unencrypted; a secret of the job's own may nowhere.
func (h HostConfig) inClear(credential, host string) []egress.Authority {
	var out []egress.Authority
	for _, a := range h.Credentials[credential].Cleartext {
		if a.Host.String() == host {
			out = append(out, a)
		}
	}
	return out
}

// noteCleartext tells the author where the credential of a rule may be seen on
// the way.
func (a *ask) noteCleartext(in injection, h HostConfig) {
	for _, d := range h.inClear(in.Credential, in.Host) {
		a.note("inject." + in.Name + ": the operator lets this credential travel unencrypted to " + d.String() + "; https keeps it unseen")
	}
}
