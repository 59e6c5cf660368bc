package redact

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
)

const secret = `sk-"live"/0123456789+abc`

func TestE101Forms(t *testing.T) {
	p := Of("Bearer " + secret)
	for name, echo := range map[string]string{
		"verbatim":   secret,
		"header":     "Bearer " + secret,
		"base64":     base64.StdEncoding.EncodeToString([]byte(secret)),
		"url base64": base64.RawURLEncoding.EncodeToString([]byte("Bearer " + secret)),
		"query":      url.QueryEscape(secret),
		"path":       url.PathEscape(secret),
		"JSON":       `sk-\"live\"/0123456789+abc`,
	} {
		in := "x" + echo + "y" + echo
		got := p.String(in)
		if len(got) != len(in) || strings.Contains(got, echo) || strings.Contains(got, "0123456789") || !strings.HasPrefix(got, "x*") || got[1+len(echo)] != 'y' {
			t.Errorf("%s: %q", name, got)
		}
	}
	basic := Of("Basic " + base64.StdEncoding.EncodeToString([]byte("user:hunter2-hunter2")))
	if got := basic.String("pass=hunter2-hunter2"); strings.Contains(got, "hunter2") {
		t.Errorf("%q", got)
	}
	if got := p.String("nothing here"); got != "nothing here" {
		t.Errorf("%q", got)
	}
	if len(Of("short")) != 0 {
		t.Error("a value under 8 bytes would blot out ordinary text")
	}
}

func TestFilterAcrossPieces(t *testing.T) {
	p := Of("Bearer " + secret)
	in := "data: " + secret + "\n\ndata: sk-" + secret + "sk-\n\n"
	want := p.String(in)
	for size := 1; size <= len(in); size++ {
		f := NewFilter(p)
		var got []byte
		for rest := in; rest != ""; {
			n := min(size, len(rest))
			got = append(got, f.Feed([]byte(rest[:n]), false)...)
			rest = rest[n:]
		}
		got = append(got, f.Feed(nil, true)...)
		if string(got) != want || f.Held() {
			t.Fatalf("pieces of %d: %q, want %q", size, got, want)
		}
	}
}

func TestFilterHoldsBackNothingElse(t *testing.T) {
	f := NewFilter(Of("Bearer " + secret))
	for _, event := range []string{"data: one\n\n", "data: two s\n\n"} {
		if got := f.Feed([]byte(event), false); string(got) != event {
			t.Errorf("%q went on as %q", event, got)
		}
	}
	if got := f.Feed([]byte("data: sk-"), false); string(got) != "data: " || !f.Held() {
		t.Errorf("%q", got)
	}
	if got := f.Feed([]byte("other\n"), false); string(got) != "sk-other\n" {
		t.Errorf("%q", got)
	}
}

func FuzzFilter(f *testing.F) {
	f.Add([]byte("xx"+secret+"yy"), 3)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		p := Of("Bearer " + secret)
		size = max(1, size%64)
		fl := NewFilter(p)
		var got []byte
		for rest := in; len(rest) > 0; {
			n := min(size, len(rest))
			got = append(got, fl.Feed(rest[:n], false)...)
			rest = rest[n:]
		}
		got = append(got, fl.Feed(nil, true)...)
		if len(got) != len(in) {
			t.Fatalf("%d bytes became %d", len(in), len(got))
		}
		for _, v := range p {
			if bytes.Contains(got, v) {
				t.Fatalf("%q is still in %q", v, got)
			}
		}
	})
}
