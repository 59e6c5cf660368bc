package cli

import (
	"strings"
	"testing"
)

func TestEgressSuggest(t *testing.T) {
	record := func(host, port, decision, code, rule string) string {
		return `{"kind":"decision","decision":"` + decision + `","code":"` + code + `","rule":{"id":"` + rule + `"},"host":"` + host + `","port":` + port + `}`
	}
	s := newSuggestion()
	err := s.read(strings.NewReader(strings.Join([]string{
		record("api.example.com", "443", "allow", "policy:allowed", "api.example.com"),
		record("api.example.com", "8443", "allow", "policy:allowed", "learn mode"), // the entry in use covers it
		record("new.example.com", "443", "deny", "policy:default-deny", ""),
		record("new.example.com", "443", "pending", "approval:pending", ""),
		record("a.pkg.example.com", "443", "allow", "policy:allowed", "*.pkg.example.com"),
		record("once.example.com", "80", "deny", "policy:default-deny", ""),
		record("bad.example.com", "443", "deny", "policy:denied", "*.bad"),
		record("2001:db8::1", "443", "deny", "policy:default-deny", ""),
		record("2001:db8::1", "443", "deny", "policy:default-deny", ""),
		record(`x\"; rm`, "443", "deny", "policy:default-deny", ""),
		// What needs no entry (egress.md: a grant takes the place of one).
		record("git.example.com", "443", "allow", "policy:allowed", "git grant acme/web"),
		record("git.example.com", "443", "deny", "policy:denied", "push refs/heads/wardyn/x/"),
		record("wardyn-proxy", "3128", "deny", "policy:denied", "git broker"),
		record("wardyn-proxy", "80", "deny", "policy:default-deny", ""),
		record("192.0.2.7", "3128", "allow", "builtin:upstream-proxy", ""),
		`{"kind":"decision","direction":"inbound","decision":"allow","code":"policy:port","rule":{"id":"http"},"host":"192.0.2.9","port":8080}`,
		record("gone.example.com", "443", "deny", "builtin:resolve-failed", ""),
		record("api.example.com", "9443", "deny", "builtin:dial-failed", ""), // the entry in use covers it
		`{"kind":"end","host":"ended.example.com","port":443}`,
		"no record",
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := s.print(&out, 2); err != nil {
		t.Fatal(err)
	}
	const want = `egress {
  allow = [
    "*.pkg.example.com", # 1
    "[2001:db8::1]:443", # 2, was refused: look before you allow it
    "api.example.com", # 1
    "new.example.com:443", # 2, was refused: look before you allow it
  ]
}
# left out: bad.example.com:443, refused by policy:denied
# left out: gone.example.com:443, not reached: builtin:resolve-failed; add it if the task needs it
# 1 lines were no records
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}
