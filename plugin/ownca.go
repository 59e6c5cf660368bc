package plugin

import (
	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// trustOwnCA gives a run whose sidecar opens TLS a CA of its own.
func trustOwnCA(s *runner.SandboxSpec) error {
	pc := &s.ProxyConfig
	if len(pc.Injection) == 0 && len(pc.MITMHosts) == 0 && !pc.MITMLLM {
		return nil
	}
	var err error
	pc.MITMCACertPEM, pc.MITMCAKeyPEM, err = control.MintCA(s.RunID)
	return err
}
