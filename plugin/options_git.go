package plugin

import "github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"

// GitPluginConfig is what an operator writes about git.
type GitPluginConfig struct {
	GitHosts []string                  `codec:"git_hosts"`
	GitGrant map[string]GitGrantConfig `codec:"git_grant"`
}

// GitGrantConfig is one git_grant block of the operator's.
type GitGrantConfig struct {
	Host       string   `codec:"host"`
	Repos      []string `codec:"repos"`
	TokenFile  string   `codec:"token_file"`
	Push       bool     `codec:"push"`
	PushRefs   []string `codec:"push_refs"`
	Namespaces []string `codec:"namespaces"`
	Jobs       []string `codec:"jobs"`
}

func gitPluginSpec(s map[string]*hclspec.Spec) {
	s["git_hosts"] = hclspec.Attr("git_hosts", hclspec.StringList)
	s["git_grant"] = hclspec.BlockMap("git_grant", []string{"name"}, hclspec.Object(map[string]*hclspec.Spec{
		"host":       hclspec.Attr("host", hclspec.String),
		"repos":      hclspec.Attr("repos", hclspec.StringList),
		"token_file": hclspec.Attr("token_file", hclspec.String),
		"push":       hclspec.Attr("push", hclspec.Bool),
		"push_refs":  hclspec.Attr("push_refs", hclspec.StringList),
		"namespaces": hclspec.Attr("namespaces", hclspec.StringList),
		"jobs":       hclspec.Attr("jobs", hclspec.StringList),
	}))
}

// GitConfig is one git block of a task.
type GitConfig struct {
	Repo      string   `codec:"repo"`
	Grant     string   `codec:"grant"`
	Host      string   `codec:"host"`
	TokenFile string   `codec:"token_file"`
	FetchOnly bool     `codec:"fetch_only"`
	PushRefs  []string `codec:"push_refs"`
}

func gitSpec() *hclspec.Spec {
	return hclspec.BlockMap("git", []string{"name"}, hclspec.Object(map[string]*hclspec.Spec{
		"repo":       hclspec.Attr("repo", hclspec.String),
		"grant":      hclspec.Attr("grant", hclspec.String),
		"host":       hclspec.Attr("host", hclspec.String),
		"token_file": hclspec.Attr("token_file", hclspec.String),
		"fetch_only": hclspec.Attr("fetch_only", hclspec.Bool),
		"push_refs":  hclspec.Attr("push_refs", hclspec.StringList),
	}))
}
