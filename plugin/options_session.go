package plugin

import "github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"

// SessionConfig are the options of a task's config about what comes before the
// command and what outlives it.
type SessionConfig struct {
	Repo      []RepoConfig     `codec:"repo"`
	Workspace *WorkspaceConfig `codec:"workspace"`
	Home      *HomeConfig      `codec:"home"`
}

// ScriptConfig is a script, in one of three ways.
type ScriptConfig struct {
	File    string `codec:"file"`
	Script  string `codec:"script"`
	Base64  string `codec:"script_b64"`
	Timeout string `codec:"timeout"`
}

// RepoConfig is one repo block.
type RepoConfig struct {
	URL           string `codec:"url"`
	Owner         string `codec:"owner"`
	Name          string `codec:"name"`
	BaseBranch    string `codec:"base_branch"`
	SessionBranch string `codec:"session_branch"`
	Dir           string `codec:"dir"`
	AuthorName    string `codec:"author_name"`
	AuthorEmail   string `codec:"author_email"`
}

// WorkspaceConfig is the workspace block.
type WorkspaceConfig struct {
	Volume string `codec:"volume"`
}

// HomeConfig is the home block.
type HomeConfig struct {
	Volume string `codec:"volume"`
	Path   string `codec:"path"`
}

// sessionSpec adds the schema of SessionConfig.
func sessionSpec(s map[string]*hclspec.Spec) {
	s["repo"] = hclspec.BlockList("repo", texts("url", "owner", "name", "base_branch", "session_branch", "dir", "author_name", "author_email"))
	s["workspace"] = hclspec.Block("workspace", texts("volume"))
	s["home"] = hclspec.Block("home", texts("volume", "path"))
}

// texts is a block of string attributes.
func texts(names ...string) *hclspec.Spec {
	m := map[string]*hclspec.Spec{}
	for _, name := range names {
		m[name] = hclspec.Attr(name, hclspec.String)
	}
	return hclspec.Object(m)
}
