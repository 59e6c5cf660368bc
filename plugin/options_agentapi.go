package plugin

import (
	"net/url"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// AgentAPIConfig is the agent_api block: where a Nomad agent can be asked what
// it does not tell a driver.
type AgentAPIConfig struct {
	URL       string `codec:"url"`
	TokenFile string `codec:"token_file"`
	CAFile    string `codec:"ca_file"`
}

func agentAPISpec() *hclspec.Spec {
	return hclspec.Block("agent_api", hclspec.Object(map[string]*hclspec.Spec{
		"url":        hclspec.Attr("url", hclspec.String),
		"token_file": hclspec.Attr("token_file", hclspec.String),
		"ca_file":    hclspec.Attr("ca_file", hclspec.String),
	}))
}

// AgentAPI is the HTTP API of a Nomad agent, as the operator's options name it.
type AgentAPI struct {
	URL string // without a path
	// TokenFile holds an ACL token; "" asks without one.
	TokenFile string
	// CAFile verifies the agent's certificate; "" is the host's own bundle.
	CAFile string
}

// agentAPI reads the agent_api block; nil without one.
func agentAPI(f *faults, c *AgentAPIConfig) *AgentAPI {
	if c == nil {
		return nil
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/":
		f.add("agent_api.url", nil, "want http(s)://host[:port], without user, path, query and fragment", `for instance "http://127.0.0.1:4646"`)
		return nil
	case u.Scheme == "http" && c.TokenFile != "" && !loopback(u.Hostname()):
		f.add("agent_api.token_file", c.TokenFile, "the token would travel unencrypted", "use https, or the agent on this node at 127.0.0.1")
	}
	checkHostFile(f, "agent_api.token_file", c.TokenFile, false)
	checkHostFile(f, "agent_api.ca_file", c.CAFile, false)
	return &AgentAPI{URL: u.Scheme + "://" + u.Host, TokenFile: c.TokenFile, CAFile: c.CAFile}
}
