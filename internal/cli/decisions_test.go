package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDecisionLine(t *testing.T) {
	old := time.Local
	time.Local = time.UTC
	defer func() { time.Local = old }()
	for _, c := range []struct{ in, want string }{
		{`{"v":1,"kind":"decision","time":"2026-01-02T03:04:05.6Z","decision":"allow","method":"GET","host":"a.example","port":8080,"path":"/x","rule_source":"policy:allow","rule":"a.example:8080"}`,
			`03:04:05.600 allow   GET a.example:8080/x  (policy:allow; a.example:8080)`},
		{`{"request":{"RunID":"r","Host":"b.example","Port":443,"Method":"CONNECT","Path":"","Time":"2026-01-02T03:04:05Z"},"decision":"deny","rule_source":"policy:default","cause":"no entry allows it","flow":{"v":1,"kind":"decision","hint":"add it to allow"}}`,
			`03:04:05.000 deny    CONNECT b.example:443  (policy:default; no entry allows it; add it to allow)`},
		{`{"kind":"decision","decision":"deny","host":"c","rule":{"source":"policy:deny","id":"c"}}`, `deny     c  (policy:deny; c)`},
		{`{"kind":"end","decision":"allow","host":"a.example"}`, ""},
		{`{"flow":{"kind":"end"},"decision":"allow"}`, ""},
		{`{"kind":"gap","gap":{"n":3}}`, ""},
		{`{"decision":"deny","host":"evil\u001b[2J\u202e"}`, `deny     evil\x1b[2J\u202e`},
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
	file := "{\"decision\":\"allow\",\"host\":\"a\"}\n{\"kind\":\"end\"}\n{\"decision\":\"deny\",\"host\":\"b\"}\n"
	path := filepath.Join(dir, "wardyn", "decisions.jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := printDecisions(&out, dir, false); err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := printDecisions(&out, dir, true); err != nil || out.String() != file {
		t.Errorf("raw: %q, %v", out.String(), err)
	}
}
