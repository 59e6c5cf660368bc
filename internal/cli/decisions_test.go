package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDecisionLine(t *testing.T) {
	old := time.Local
	time.Local = time.UTC
	defer func() { time.Local = old }()
	for _, c := range []struct{ in, want string }{
		{`{"v":1,"seq":1,"time":"2026-01-02T03:04:05.6Z","kind":"decision","decision":"allow","code":"policy:allow","rule":{"source":"policy:allow","id":"a.example:8080"},"method":"GET","host":"a.example","port":8080,"path":"/x"}`,
			`03:04:05.600 allow   GET a.example:8080/x (policy:allow; a.example:8080)`},
		{`{"time":"2026-01-02T03:04:05Z","kind":"decision","decision":"deny","code":"policy:default-deny","host":"b.example","port":443,"method":"CONNECT","cause":"no entry allows it","hint":"add it to allow"}`,
			`03:04:05.000 deny    CONNECT b.example:443 (policy:default-deny; no entry allows it; add it to allow)`},
		{`{"kind":"decision","decision":"pending","host":"c"}`, `             pending c`},
		{`{"kind":"end","decision":"allow","host":"a.example"}`, ""},
		{`{"kind":"gap","time":"2026-01-02T03:04:05Z","gap":{"n":3}}`, "03:04:05.000 3 records are missing"},
		{`{"kind":"decision","decision":"deny","host":"evil\u001b[2J\u202e"}`, `             deny    evil\x1b[2J\u202e`},
		{`{"half`, `unreadable record: {"half`},
	} {
		if got := decisionLine([]byte(c.in)); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}

func TestPrintDecisions(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := printDecisions(&out, dir, false); err != nil || out.Len() != 0 {
		t.Errorf("without a file: %q, %v", out.String(), err)
	}
	older, newer := "{\"kind\":\"decision\",\"decision\":\"allow\",\"host\":\"a\"}\n", "{\"kind\":\"end\"}\n{\"kind\":\"decision\",\"decision\":\"deny\",\"host\":\"b\"}\n"
	for name, text := range map[string]string{"decisions.jsonl": newer, "decisions.1.jsonl": older} {
		path := filepath.Join(dir, "wardyn", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := printDecisions(&out, dir, false); err != nil || out.String() != "             allow   a\n             deny    b\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := printDecisions(&out, dir, true); err != nil || out.String() != older+newer {
		t.Errorf("raw: %q, %v", out.String(), err)
	}
}
