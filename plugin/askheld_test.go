package plugin

import (
	"strings"
	"testing"
)

// I3, K25: a secret that stays outside the sandbox does not lie in a folder that
// is mounted there, whether it is for a header or for git.
func TestI3HeldSecretsAreNotMounted(t *testing.T) {
	h := lender
	h.AllowSecretsDir = true
	inject := func(c InjectConfig) map[string]InjectConfig {
		c.Host, c.Header = "api.example", "X-Key"
		return map[string]InjectConfig{"own": c}
	}
	for name, tt := range map[string]struct {
		c     TaskConfig
		field string // of the fault; "" for none
	}{
		"a file of inject":               {TaskConfig{MountSecrets: true, Inject: inject(InjectConfig{SecretFile: "secrets/own.key"})}, `inject.own.secret_file = "secrets/own.key"`},
		"below a folder":                 {TaskConfig{MountSecrets: true, Inject: inject(InjectConfig{SecretFile: "secrets/a/own.key"})}, `inject.own.secret_file = "secrets/a/own.key"`},
		"a token of git":                 {TaskConfig{MountSecrets: true, Git: map[string]GitConfig{"web": {Repo: "acme/web", Host: "git.example", TokenFile: "secrets/t"}}}, `git.web.token_file = "secrets/t"`},
		"a file that is not mounted":     {TaskConfig{Inject: inject(InjectConfig{SecretFile: "secrets/own.key"})}, ""},
		"the operator's, and the folder": {TaskConfig{MountSecrets: true, Inject: inject(InjectConfig{Credential: "corp"}), Git: map[string]GitConfig{"web": {Repo: "acme/web", Grant: "read"}}}, ""},
		"the folder alone":               {TaskConfig{MountSecrets: true}, ""},
	} {
		tt.c.Egress = allowing("api.example")
		f := &faults{}
		readAsk(tt.c, h, f)
		var got []string
		for _, x := range f.list {
			if strings.Contains(x.Reason, "mount_secrets") {
				got = append(got, x.String())
			}
		}
		all := strings.Join(got, "\n")
		if (len(got) > 0) != (tt.field != "") || !strings.HasPrefix(all, tt.field) || tt.field != "" && !strings.Contains(all, "local/") {
			t.Errorf("%s: refused with %q, want %q", name, all, tt.field)
		}
	}
}
