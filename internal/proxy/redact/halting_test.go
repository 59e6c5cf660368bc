package redact

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestE101HaltingStreams holds streams in pieces, with pauses, to their whole
// text: every byte is there once and in its place, or masked where a secret is,
// of which no more shows than may go on behind a pause.
func TestE101HaltingStreams(t *testing.T) {
	for _, value := range []string{"Bearer " + secret, "abcabcabcabc", "Basic dXNlcjE6aHVudGVyMi1odW50ZXIy", "0123456789ab.cdefghijklmnop"} {
		p := Of(value)
		for seed := range uint64(500) {
			for _, sameLength := range []bool{true, false} {
				r := rand.New(rand.NewPCG(seed, 1))
				in := randomText(r, p)
				out := halting(r, NewFilter(p, sameLength), in)
				if why := differs(p, in, out, sameLength); why != "" {
					t.Fatalf("value %q, seed %d, same length %v: %s\n in %q\nout %q", value, seed, sameLength, why, in, out)
				}
			}
		}
	}
}

// randomText is made of forms, of beginnings of them and of other text.
func randomText(r *rand.Rand, p *Patterns) string {
	var b strings.Builder
	for range 1 + r.IntN(8) {
		form := p.forms[r.IntN(len(p.forms))].text
		switch r.IntN(4) {
		case 0:
			b.Write(form)
		case 1:
			b.Write(form[:r.IntN(len(form))])
		case 2:
			b.WriteString("text*")
		}
		b.WriteByte("|\n"[r.IntN(2)]) // apart, so that no two share bytes
	}
	return b.String()
}

// halting feeds text in pieces, with a pause behind some.
func halting(r *rand.Rand, f *Filter, in string) string {
	var out []byte
	for in != "" {
		n := min(1+r.IntN(30), len(in))
		out = append(out, f.Feed([]byte(in[:n]), false)...)
		if f.Waits() && r.IntN(2) == 0 {
			out = append(out, f.Pause()...)
		}
		in = in[n:]
	}
	return string(append(out, f.Feed(nil, true)...))
}

// differs says what is wrong with out, or nothing.
func differs(p *Patterns, in, out string, sameLength bool) string {
	at := 0
	for _, s := range append(p.find([]byte(in), nil), span{len(in), len(in)}) {
		text, hidden := in[at:s.from], in[s.from:s.to]
		if !strings.HasPrefix(out, text) {
			return "the text before " + hidden
		}
		out, at = out[len(text):], s.to
		if hidden == "" {
			continue
		}
		shown := 0
		for shown < len(out) && shown < len(hidden) && out[shown] == hidden[shown] {
			shown++
		}
		masked := mask
		if sameLength {
			masked = strings.Repeat("*", len(hidden)-shown)
		}
		if shown > mayShow(p, []byte(hidden)) || !strings.HasPrefix(out[shown:], masked) {
			return "of " + hidden + " shows " + out[:shown]
		}
		out = out[shown+len(masked):]
	}
	if out != "" {
		return "there is more: " + out
	}
	return ""
}

// mayShow is how much of hidden may go on behind a pause: half of a form, behind
// what stands before it.
func mayShow(p *Patterns, hidden []byte) int {
	most := 0
	for at := range hidden {
		for _, f := range p.forms {
			if bytes.HasPrefix(hidden[at:], f.text) {
				most = max(most, at+f.held)
			}
		}
	}
	return most
}
