package taskpath

import (
	"strings"
	"testing"
)

func TestK31Sources(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // the source's spelling, or the error's words after "!"
	}{
		{"local", "local"},
		{"local/nginx.conf", "local/nginx.conf"},
		{"./local//conf/", "local/conf"},
		{"configs", "configs"},
		{"local/../configs", "configs"},
		{"localsecrets", "localsecrets"},
		{"wardynx", "wardynx"},
		{"alloc/data", "alloc/data"},
		{"../alloc/data", "alloc/data"},
		{"alloc/logsx", "alloc/logsx"},
		{"alloc/data/../tmp", "alloc/tmp"},

		{"", "!empty"},
		{".", "!whole task directory"},
		{"./", "!whole task directory"},
		{"local/..", "!whole task directory"},
		{"..", "!leaves the task directory"},
		{"../other/local", "!leaves the task directory"},
		{"../../x", "!leaves the task directory"},
		{"local/../../other", "!leaves the task directory"},
		{"../alloc/../../x", "!leaves the task directory"},
		{"a\x00b", "!NUL"},
		{"wardyn", "!driver's own records"},
		{"local/../wardyn/decisions.jsonl", "!driver's own records"},
		{"private", "!Nomad's own"},
		{"private/x", "!Nomad's own"},
		{"secrets", "!mount_secrets"},
		{"secrets/key", "!mount_secrets"},
		{"./secrets/key", "!mount_secrets"},
		{"tmp", "!Nomad's own"},
		{"alloc", "!/alloc already"},
		{"../alloc", "!"},
		{"alloc/logs", "!log pipes"},
		{"../alloc/logs/x", "!log pipes"},
		{"alloc/data/../logs", "!log pipes"},
		{"/etc/passwd", "!volume_mount"},
		{"/local/nginx.conf", `!write "local/nginx.conf"`},
		{"/alloc/data", `!write "alloc/data"`},
	} {
		s, err := ParseSource(c.text)
		switch words, bad := strings.CutPrefix(c.want, "!"); {
		case bad && err == nil:
			t.Errorf("%q: taken as %q, want a refusal", c.text, s)
		case bad && !strings.Contains(err.Error(), words):
			t.Errorf("%q: %v, want %q in it", c.text, err, words)
		case !bad && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case !bad && s.String() != c.want:
			t.Errorf("%q: got %q, want %q", c.text, s, c.want)
		}
	}
}

// FuzzSource: whatever is taken stays beneath its base and out of the closed
// folders.
func FuzzSource(f *testing.F) {
	for _, s := range []string{"local", "../alloc/x", "a/../../b", "secrets/../local", "alloc/../secrets"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSource(text)
		if err != nil {
			return
		}
		first, _, _ := strings.Cut(s.Path, "/")
		switch {
		case s.Path == "" || s.Path == "." || strings.HasPrefix(s.Path, "/") || first == "..":
			t.Fatalf("%q escapes as %q", text, s.Path)
		case !s.Shared && closed[first] != "":
			t.Fatalf("%q opens %q", text, s.Path)
		case s.Shared && first == "logs":
			t.Fatalf("%q opens the logs", text)
		}
	})
}
