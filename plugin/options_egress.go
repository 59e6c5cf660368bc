package plugin

import "github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"

// EgressPluginConfig is what an operator writes about egress beyond lists of
// hosts.
type EgressPluginConfig struct {
	CAFile         string                      `codec:"ca_file"`
	Approvals      string                      `codec:"approvals"`
	Credential     map[string]CredentialConfig `codec:"credential"`
	Intercept      []string                    `codec:"intercept"`
	AllowIntercept []string                    `codec:"allow_intercept"`
	UpstreamProxy  *UpstreamProxyConfig        `codec:"upstream_proxy"`
	AllowLearn     bool                        `codec:"allow_learn"`
	AuditDir       string                      `codec:"audit_dir"`
	AuditRetention string                      `codec:"audit_retention"`
	DecisionLogMB  int64                       `codec:"decision_log_mb"`
	ControlPlane   *ControlPlaneConfig         `codec:"control_plane"`
	OTLP           *OTLPConfig                 `codec:"otlp"`
}

// ControlPlaneConfig is somebody else's control plane.
type ControlPlaneConfig struct {
	URL       string `codec:"url"`
	TokenFile string `codec:"token_file"`
	// PerRunTokens has each run speak under a token of its own, which is made
	// of the file's.
	PerRunTokens bool `codec:"per_run_tokens"`
}

// UpstreamProxyConfig is the corporate proxy that requests leave through.
type UpstreamProxyConfig struct {
	URL             string   `codec:"url"`
	CredentialsFile string   `codec:"credentials_file"`
	Bypass          []string `codec:"bypass"`
}

// CredentialConfig is one credential block of the operator's.
type CredentialConfig struct {
	File       string   `codec:"file"`
	Hosts      []string `codec:"hosts"`
	Headers    []string `codec:"headers"`
	Format     string   `codec:"format"`
	Cleartext  []string `codec:"cleartext"`
	Namespaces []string `codec:"namespaces"`
	Jobs       []string `codec:"jobs"`
}

// egressPluginSpec adds the schema of EgressPluginConfig. A block with a label
// takes no attribute of type any.
func egressPluginSpec(s map[string]*hclspec.Spec) {
	s["ca_file"] = hclspec.Attr("ca_file", hclspec.String)
	s["approvals"] = hclspec.Attr("approvals", hclspec.String)
	s["intercept"] = hclspec.Attr("intercept", hclspec.StringList)
	s["allow_intercept"] = hclspec.Attr("allow_intercept", hclspec.StringList)
	s["allow_learn"] = hclspec.Attr("allow_learn", hclspec.Bool)
	s["audit_dir"] = hclspec.Attr("audit_dir", hclspec.String)
	s["audit_retention"] = hclspec.Attr("audit_retention", hclspec.String)
	s["decision_log_mb"] = hclspec.Attr("decision_log_mb", hclspec.Number)
	s["control_plane"] = hclspec.Block("control_plane", hclspec.Object(map[string]*hclspec.Spec{
		"url":            hclspec.Attr("url", hclspec.String),
		"token_file":     hclspec.Attr("token_file", hclspec.String),
		"per_run_tokens": hclspec.Attr("per_run_tokens", hclspec.Bool),
	}))
	s["otlp"] = otlpSpec()
	s["upstream_proxy"] = hclspec.Block("upstream_proxy", hclspec.Object(map[string]*hclspec.Spec{
		"url":              hclspec.Attr("url", hclspec.String),
		"credentials_file": hclspec.Attr("credentials_file", hclspec.String),
		"bypass":           hclspec.Attr("bypass", hclspec.StringList),
	}))
	s["credential"] = hclspec.BlockMap("credential", []string{"name"}, hclspec.Object(map[string]*hclspec.Spec{
		"file":       hclspec.Attr("file", hclspec.String),
		"hosts":      hclspec.Attr("hosts", hclspec.StringList),
		"headers":    hclspec.Attr("headers", hclspec.StringList),
		"format":     hclspec.Attr("format", hclspec.String),
		"cleartext":  hclspec.Attr("cleartext", hclspec.StringList),
		"namespaces": hclspec.Attr("namespaces", hclspec.StringList),
		"jobs":       hclspec.Attr("jobs", hclspec.StringList),
	}))
}

// InjectConfig is one inject block of a task.
type InjectConfig struct {
	Host       string `codec:"host"`
	Header     string `codec:"header"`
	Format     string `codec:"format"`
	SecretFile string `codec:"secret_file"`
	Credential string `codec:"credential"`
}

func injectSpec() *hclspec.Spec {
	return hclspec.BlockMap("inject", []string{"name"}, hclspec.Object(map[string]*hclspec.Spec{
		"host":        hclspec.Attr("host", hclspec.String),
		"header":      hclspec.Attr("header", hclspec.String),
		"format":      hclspec.Attr("format", hclspec.String),
		"secret_file": hclspec.Attr("secret_file", hclspec.String),
		"credential":  hclspec.Attr("credential", hclspec.String),
	}))
}
