package plugin

import (
	"slices"
	"strings"
	"testing"
)

// lender is an operator who has something for jobs.
var lender = HostConfig{
	DenyDomains: []string{"bad.example"},
	EgressHost: EgressHost{
		Approvals:      ApprovalsOff,
		Credentials:    map[string]HostCredential{"corp": {File: "/k", Hosts: []string{"api.example"}, Headers: []string{"X-Key"}, For: tenants{Namespaces: []string{"agents"}, Jobs: []string{"web-*"}}}},
		AllowIntercept: []string{"*.example"},
	},
	GitHost: GitHost{
		GitHosts:  []string{"git.example"},
		GitGrants: map[string]GitGrant{"read": {Host: "github.com", Repos: []string{"acme/*"}, For: tenants{Namespaces: []string{"*"}}}, "push": {Host: "github.com", Repos: []string{"acme/web"}, Push: true, PushRefs: []string{"refs/heads/agents/"}, For: tenants{Namespaces: []string{"*"}}}},
	},
}

// judge reads the egress half of a config for a job.
func judge(c TaskConfig, h HostConfig, namespace, job string) (ask, string) {
	f := &faults{}
	var a ask
	if c.Egress != nil {
		a.readEgress(*c.Egress, h, f)
	}
	a.readInject(c.Inject, h, f)
	a.readGit(c.Git, h, f)
	admitCredentials(namespace, job, a, h, f)
	return a, f.Error()
}

func allowing(hosts ...string) *EgressConfig { return &EgressConfig{Allow: hosts} }

// D9, D14, K31, K41, G19: what an inject block may say.
func TestInjectRefusals(t *testing.T) {
	for want, c := range map[string]TaskConfig{
		"host = \"*.example\": want the exact name":         {Egress: allowing("*.example.org"), Inject: map[string]InjectConfig{"a": {Host: "*.example", Header: "X-Key", SecretFile: "secrets/k"}}},
		"egress.allow does not name it exactly":             {Egress: allowing("*.api.example"), Inject: map[string]InjectConfig{"a": {Host: "v1.api.example", Header: "X-Key", SecretFile: "secrets/k"}}},
		"it is denied by the plugin option deny_domains":    {Egress: allowing("bad.example"), Inject: map[string]InjectConfig{"a": {Host: "bad.example", Header: "X-Key", SecretFile: "secrets/k"}}},
		"secret_file: it is missing":                        {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "X-Key"}}},
		"want a file below secrets/":                        {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "X-Key", SecretFile: "local/k"}}},
		"secret_file = \"secrets/../local/k\": want a file": {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "X-Key", SecretFile: "secrets/../local/k"}}},
		"there is a secret_file too":                        {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "X-Key", SecretFile: "secrets/k", Credential: "corp"}}},
		"the header is missing":                             {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", SecretFile: "secrets/k"}}},
		"this header is the proxy's own":                    {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "Host", SecretFile: "secrets/k"}}},
		"one {secret} where the secret goes":                {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "X-Key", Format: "Bearer", SecretFile: "secrets/k"}}},
		"a host has one credential":                         {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "X-Key", SecretFile: "secrets/k"}, "b": {Host: "API.example.", Header: "X-Key", SecretFile: "secrets/k"}}},
		"the operator has none of that name":                {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "X-Key", Credential: "other"}}},
		"is not for that host":                              {Egress: allowing("www.example"), Inject: map[string]InjectConfig{"a": {Host: "www.example", Credential: "corp"}}},
		"does not go into that header":                      {Egress: allowing("api.example"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Header: "Authorization", Credential: "corp"}}},
		"lets nobody decide about first uses":               {Egress: &EgressConfig{FirstUse: "wait_for_review"}},
		"no such mode":                                      {Egress: &EgressConfig{FirstUse: "maybe"}},
		"(plugin option allow_intercept)":                   {Egress: &EgressConfig{Intercept: []string{"api.example.org"}}},
		`want "org/repo"`:                                   {Git: map[string]GitConfig{"a": {Repo: "web", Grant: "read"}}},
		"(plugin option git_grant, repos)":                  {Git: map[string]GitConfig{"a": {Repo: "other/web", Grant: "read"}}},
		"(plugin option git_hosts)":                         {Git: map[string]GitConfig{"a": {Repo: "acme/web", TokenFile: "secrets/t"}}},
		"git.b is for that repository already":              {Git: map[string]GitConfig{"b": {Repo: "acme/web", Grant: "read"}, "c": {Repo: "Acme/Web", Grant: "read"}}},
		"does not let it be pushed to":                      {Git: map[string]GitConfig{"a": {Repo: "acme/web", Grant: "push", PushRefs: []string{"refs/heads/main"}}}},
		"the beginning of full names of refs":               {Git: map[string]GitConfig{"a": {Repo: "acme/web", Grant: "push", PushRefs: []string{"main"}}}},
	} {
		if _, got := judge(c, lender, "agents", "web-1"); !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}

// D14: a credential of the operator's is for some namespaces and jobs.
func TestD14CredentialsAreForSomebody(t *testing.T) {
	c := TaskConfig{Egress: allowing("api.example:443"), Inject: map[string]InjectConfig{"a": {Host: "api.example", Credential: "corp"}}}
	for _, who := range [][3]string{{"agents", "web-1", ""}, {"agents", "db", `not for job "db"`}, {"default", "web-1", `not for namespace "default"`}, {"", "web-1", "this client does not say"}} {
		a, got := judge(c, lender, who[0], who[1])
		if (who[2] == "") != strings.HasSuffix(got, "for 0 reasons: ") || !strings.Contains(got, who[2]) {
			t.Errorf("%v: %s", who, got)
		}
		if want := (injection{Name: "a", Host: "api.example", Header: "X-Key", Format: "{secret}", Credential: "corp"}); len(a.Inject) != 1 || a.Inject[0] != want {
			t.Errorf("%+v", a.Inject)
		}
	}
}

func TestGitRules(t *testing.T) {
	c := TaskConfig{Git: map[string]GitConfig{
		"a": {Repo: "Acme/Docs", Grant: "read"}, "b": {Repo: "acme/web", Grant: "push"}, "c": {Repo: "me/own", Host: "git.example", TokenFile: "/secrets/t"},
	}}
	a, got := judge(c, lender, "n", "j")
	if !strings.HasSuffix(got, "for 0 reasons: ") {
		t.Fatal(got)
	}
	rules := gitRules(gitSources(RunID("a/t/1"), "alloc.my task", a))
	if r := rules["acme/docs"]; !r.FetchOnly || r.Host != "github.com" {
		t.Errorf("%+v", r)
	}
	if r := rules["acme/web"]; r.FetchOnly || !slices.Equal(r.PushRefs, []string{"refs/heads/agents/"}) {
		t.Errorf("%+v", r)
	}
	if r := rules["me/own"]; r.FetchOnly || r.Host != "git.example" || !slices.Equal(r.PushRefs, []string{"refs/heads/wardyn/alloc-my-task/"}) {
		t.Errorf("K39: %+v", r)
	}
}

// G19: only a credential of the operator's may travel in the clear, to just the
// destinations that its block names.
func TestG19CleartextIsTheOperatorsWord(t *testing.T) {
	read := func(list ...string) (HostCredential, string) {
		f := &faults{}
		c := hostCredential(f, "corp", CredentialConfig{
			File: "/k", Hosts: []string{"api.example", "old.example"}, Headers: []string{"X-Key"}, Namespaces: []string{"*"}, Cleartext: list,
		})
		return c, f.Error()
	}
	for text, want := range map[string]string{
		"other.example:80": "not for that host", "api.example:443": "carries TLS", "*.example:80": "want host:port", "api.example:x": "want host:port",
	} {
		if _, got := read(text); !strings.Contains(got, want) {
			t.Errorf("%q: want %q in %s", text, want, got)
		}
	}
	c, got := read("old.example", "API.example:8080")
	if !strings.HasSuffix(got, "for 0 reasons: ") {
		t.Fatal(got)
	}
	h := HostConfig{EgressHost: EgressHost{Credentials: map[string]HostCredential{"corp": c}}}
	for _, want := range []struct {
		allow  string
		inject InjectConfig
		fault  bool
		notes  int
	}{
		{"old.example:80", InjectConfig{Host: "old.example", Credential: "corp"}, false, 1},
		{"api.example", InjectConfig{Host: "api.example", Credential: "corp"}, false, 1},
		{"api.example:80", InjectConfig{Host: "api.example", Credential: "corp"}, true, 1},
		{"old.example", InjectConfig{Host: "old.example", Header: "X-Key", SecretFile: "secrets/k"}, false, 0},
		{"old.example:80", InjectConfig{Host: "old.example", Header: "X-Key", SecretFile: "secrets/k"}, true, 0},
	} {
		a, got := judge(TaskConfig{Egress: allowing(want.allow), Inject: map[string]InjectConfig{"a": want.inject}}, h, "n", "j")
		if strings.HasSuffix(got, "for 0 reasons: ") == want.fault || len(a.Notes) != want.notes {
			t.Errorf("%+v: %s, notes %q", want, got, a.Notes)
		}
	}
}
