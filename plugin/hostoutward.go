package plugin

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// UpstreamProxy is a corporate proxy that requests leave through.
type UpstreamProxy struct {
	Host string // host[:port]
	// CredentialsFile holds "user:password"; "" is none.
	CredentialsFile string
	// Bypass lists hosts that are reached directly.
	Bypass []string
}

func upstreamProxy(f *faults, c *UpstreamProxyConfig) *UpstreamProxy {
	if c == nil {
		return nil
	}
	const field = "upstream_proxy.url"
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		f.add(field, nil, "want http://host[:port]", `for instance "http://proxy.corp.example:3128"`)
		return nil
	case u.Scheme != "http":
		f.add(field, nil, "the scheme is http and nothing else: what is said to such a proxy is in the clear anyway", "")
	case u.User != nil:
		f.add(field, nil, "a credential in the agent's configuration can be read through its API", "put user:password into a file and name it in upstream_proxy.credentials_file")
	}
	checkHostFile(f, "upstream_proxy.credentials_file", c.CredentialsFile, false)
	for _, e := range c.Bypass {
		if _, err := egress.ParseCeiling(e); err != nil {
			f.add("upstream_proxy.bypass", nil, err.Error(), "")
		}
	}
	return &UpstreamProxy{Host: u.Host, CredentialsFile: c.CredentialsFile, Bypass: c.Bypass}
}

// url is the proxy's URL with its credentials, which stand nowhere but in the
// sidecar's configuration.
func (u *UpstreamProxy) url() (string, error) {
	out := url.URL{Scheme: "http", Host: u.Host}
	if u.CredentialsFile != "" {
		text, err := readHostSecret(u.CredentialsFile)
		if err != nil {
			return "", fmt.Errorf("plugin option upstream_proxy.credentials_file: %w", err)
		}
		user, password, ok := strings.Cut(strings.TrimRight(text, "\r\n"), ":")
		if !ok || user == "" {
			return "", fmt.Errorf("plugin option upstream_proxy.credentials_file: %s does not hold user:password", u.CredentialsFile)
		}
		out.User = url.UserPassword(user, password)
	}
	return out.String(), nil
}

// leaveThrough has a run's requests leave through the operator's proxy.
func leaveThrough(s *runner.SandboxSpec, h HostConfig) (err error) {
	if h.Upstream != nil {
		s.ProxyConfig.UpstreamProxyURL, err = h.Upstream.url()
	}
	return err
}

// checkControlPlane judges the address of somebody else's control plane.
func checkControlPlane(f *faults, mode ApprovalMode, c *ControlPlaneConfig) {
	if c == nil {
		if mode == ApprovalsExternal {
			f.add("approvals", string(mode), "there is no control_plane", "add a control_plane block with its url")
		}
		return
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		f.add("control_plane.url", nil, "want http(s)://host[:port], without user, query and fragment", `for instance "https://control.corp.example"`)
	}
	checkHostFile(f, "control_plane.token_file", c.TokenFile, true)
	if mode != ApprovalsExternal {
		f.add("control_plane", nil, "with it first uses are decided there", `write approvals = "external"`)
	}
}

// Token is the token for the operator's control plane as it is now.
func (c *ControlPlaneConfig) Token() (string, error) {
	text, err := readHostSecret(c.TokenFile)
	return strings.TrimSpace(text), err
}

// Defaults and bounds of what is kept.
const (
	defaultRetention  = 90 * 24 * time.Hour
	maxDecisionLogMiB = 4096
)

func (h *EgressHost) readAudit(f *faults, c EgressPluginConfig) {
	h.AuditDir, h.DecisionLogMiB = c.AuditDir, c.DecisionLogMB
	checkHostFile(f, "audit_dir", c.AuditDir, false)
	if c.AuditDir != "" {
		h.AuditRetention = defaultRetention
	}
	if c.AuditRetention != "" {
		d, err := time.ParseDuration(c.AuditRetention)
		switch {
		case err != nil || d < 24*time.Hour:
			f.add("audit_retention", c.AuditRetention, "want a time of at least a day", `for instance "720h"`)
		case c.AuditDir == "":
			f.add("audit_retention", c.AuditRetention, "there is no audit_dir", "remove one of the two")
		}
		h.AuditRetention = d
	}
	if c.DecisionLogMB < 0 || c.DecisionLogMB > maxDecisionLogMiB {
		f.add("decision_log_mb", c.DecisionLogMB, fmt.Sprintf("want 1 to %d MiB", maxDecisionLogMiB), "remove the line for the default, 64")
	}
}
