package main

import (
	"log/slog"
	"os"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// caBundles are the places distributions keep their root certificates at; the
// sidecar's image has none.
var caBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/cert.pem",
}

// node says what sidecars must know of this node, at each time one asks.
func node(h plugin.HostConfig, log *slog.Logger) func() egress.NodeConfig {
	return func() egress.NodeConfig {
		n := egress.NodeConfig{
			PrivateHosts: h.PrivateHosts, AllowCeiling: h.AllowDomains, DenyCeiling: h.DenyDomains,
		}
		if h.Upstream != nil {
			n.ProxyBypass = h.Upstream.Bypass
		}
		own, err := ownAddresses()
		if err != nil {
			// The table of private ranges still refuses what is usual.
			log.Error("the node's own addresses are not known", "error", err)
		}
		n.Own = own
		n.CARoots = roots(h.CAFile, log)
		return n
	}
}

// ownAddresses are those that the node's interfaces have now. One that it is
// reached at from outside through translation is none of them.
func ownAddresses() ([]string, error) {
	addrs, err := netpool.HostAddresses()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out, nil
}

// roots are what upstream TLS is verified with: the operator's file, else the
// first bundle there is.
func roots(file string, log *slog.Logger) string {
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			log.Error("upstream TLS cannot be verified (plugin option ca_file)", "error", err)
		}
		return string(b)
	}
	for _, path := range caBundles {
		if b, err := os.ReadFile(path); err == nil {
			return string(b)
		}
	}
	return ""
}
