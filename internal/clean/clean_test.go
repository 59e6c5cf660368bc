package clean

import (
	"bytes"
	"strings"
	"testing"
)

// feed gives text in pieces of n bytes.
func feed(s *Stream, text string, n int) string {
	var out bytes.Buffer
	for len(text) > 0 {
		k := min(n, len(text))
		out.Write(s.Next([]byte(text[:k])))
		text = text[k:]
	}
	out.Write(s.End())
	return out.String()
}

// I3, K36: a secret is hidden wherever pieces end.
func TestI3SecretsAcrossPieces(t *testing.T) {
	secrets := []string{"sk-abcdefgh", "sk-abcdefghijkl", "short", "line-one\nline-two"}
	for _, c := range []struct{ in, want string }{
		{"a sk-abcdefgh b", "a <secret-hidden> b"},
		{"a sk-abcdefghijkl b", "a <secret-hidden> b"},
		{"sk-abcdefghij.", "<secret-hidden>ij."},
		{"sk-sk-abcdefgh", "sk-<secret-hidden>"},
		{"sk-abc is none, short neither", "sk-abc is none, short neither"},
		{"line-one\r\nline-two|line-one\nline-two", "<secret-hidden>|<secret-hidden>"},
		{"ends in sk-abcdefg", "ends in <secret-hidden>"}, // the greater part of one
		{"ends in sk-abc", "ends in sk-abc"},
	} {
		for n := 1; n <= len(c.in); n++ {
			if got := feed(NewStream(secrets), c.in, n); got != c.want {
				t.Errorf("%q by %d: %q, want %q", c.in, n, got, c.want)
			}
		}
	}
}

func FuzzI3Stream(f *testing.F) {
	f.Add("xx secret-value yy", 3)
	f.Add("secret-secret-value", 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		const secret = "secret-value"
		n = 1 + n&63
		got := feed(NewStream([]string{secret}), text, n)
		if strings.Contains(got, secret) {
			t.Errorf("%q by %d: %q", text, n, got)
		}
		if !strings.Contains(text, "secret-v") && got != text {
			t.Errorf("%q by %d was changed: %q", text, n, got)
		}
	})
}

func TestVisible(t *testing.T) {
	if got := string(Visible([]byte("a\u202e\u0085\U000e0001é"))); got != `a\u202e\u0085\udb40\udc01é` {
		t.Error(got)
	}
}
