package redact

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

// haltingly feeds a filter pieces of a size with a pause behind each.
func haltingly(f *Filter, in string, size int) string {
	var got []byte
	for in != "" {
		n := min(size, len(in))
		got = append(got, f.Feed([]byte(in[:n]), false)...)
		got = append(got, f.Pause()...)
		in = in[n:]
	}
	return string(append(got, f.Feed(nil, true)...))
}

// TestE101TellsNoBeginning: what waits of a text that the sandbox chose, and had
// an origin send in pieces, must not tell how much of a secret it guessed.
// Whoever sees one more character wait has the whole of it in a few thousand
// tries, from an origin that never sends it.
func TestE101TellsNoBeginning(t *testing.T) {
	const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	const token = "q7RzW2mK9vLx4TbN8cYd"
	encoded := base64.StdEncoding.EncodeToString([]byte(token))
	for name, c := range map[string]struct{ value, known, unknown string }{
		"alone":             {token, "", token},
		"behind its scheme": {"Bearer " + token, "Bearer ", token},
		"behind its kind":   {"Bearer github_pat_" + token, "github_pat_", token},
		"signed":            {"Bearer eyJhbGciOiJIUzI1NiJ9.eyJpYXQiOjF9." + token, "eyJhbGciOiJIUzI1NiJ9.eyJpYXQiOjF9.", token},
		"of a user":         {"Basic " + base64.StdEncoding.EncodeToString([]byte("user12:"+token)), "user12:", token},
		"in base64":         {"Bearer " + token, "", encoded},
	} {
		p := Of(c.value)
		for guessed := range len(c.unknown)/2 - 1 {
			lead, piece := c.known+c.unknown[:guessed], 0
			for _, sign := range signs {
				f := NewFilter(p, false)
				out := len(f.Feed([]byte("|"+lead+string(sign)), false))
				out = out<<16 + len(f.Pause())
				if piece != 0 && piece != out {
					t.Fatalf("%s: that %q is right can be seen behind %q", name, c.unknown[:guessed+1], c.known)
				}
				piece = out
			}
		}
	}
}

// TestE101HalfIsMasked: an origin that pauses in the midst of a secret shows at
// most half of what nobody may know, and what it sends at once is masked whole.
func TestE101HalfIsMasked(t *testing.T) {
	p := Of("Bearer " + secret)
	for name, echo := range map[string]string{
		"verbatim": secret,
		"base64":   base64.StdEncoding.EncodeToString([]byte(secret)),
		"hex":      hex.EncodeToString([]byte(secret)),
	} {
		for _, sameLength := range []bool{true, false} {
			for size := 1; size <= len(echo); size++ {
				got := haltingly(NewFilter(p, sameLength), "data: "+echo+"\n\n", size)
				if sameLength && len(got) != len(echo)+8 {
					t.Errorf("%s: %q", name, got)
				}
				most := len(echo)*(len("sk-")+len(secret))/(2*len(secret)) + 1
				for at := range len(echo) - most {
					if strings.Contains(got, echo[at:at+most]) {
						t.Fatalf("%s in pieces of %d: %q", name, size, got)
					}
				}
				if tail := echo[len(echo)-4:]; strings.Contains(got, tail) {
					t.Fatalf("%s in pieces of %d: %q", name, size, got)
				}
			}
		}
	}
}

func TestFilterLetsGo(t *testing.T) {
	f := NewFilter(Of("Bearer "+secret), false)
	for _, event := range []string{"data: one\n\n", "data: two s\n\n"} {
		if got := f.Feed([]byte(event), false); string(got) != event || f.Waits() {
			t.Errorf("a line break behind %q: %q", event, got)
		}
	}
	for _, message := range []string{"message", secret[:len(secret)/2], "x", "Bearer "} {
		if got := f.Feed([]byte(message), false); len(got) != 0 || !f.Waits() {
			t.Errorf("nothing waits of %q: %q", message, got)
		}
		if got := f.Pause(); string(got) != message || f.Waits() {
			t.Errorf("a pause behind %q: %q", message, got)
		}
	}
	most := secret[:(len("sk-")+len(secret))/2+1]
	f.Feed([]byte(most), false)
	if got := f.Pause(); len(got) != 0 || f.Waits() {
		t.Errorf("more than half goes on: %q", got)
	}
	f.Feed([]byte("other"), false)
	if got := f.Pause(); string(got) != most+"other" {
		t.Errorf("what turned out to be something else: %q", got)
	}
	for _, same := range []bool{true, false} {
		long := strings.Repeat("x", 5000)
		f := NewFilter(Of("Bearer "+secret), same)
		if got := f.Feed([]byte(long), false); len(got) != len(long)-windowStep {
			t.Errorf("%d of %d bytes went on", len(got), len(long))
		}
	}
	if f := NewFilter(Of("short"), false); string(f.Feed([]byte("all"), false)) != "all" || f.Waits() {
		t.Error("something waits although there is no secret")
	}
}
