package redact

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"html"
	"net/url"
	"strings"
	"testing"
)

const secret = `sk-"live"/0123456789+abc`

func TestE101Forms(t *testing.T) {
	p := Of("Bearer " + secret)
	std := base64.StdEncoding.EncodeToString
	for name, echo := range map[string]string{
		"verbatim":   secret,
		"header":     "Bearer " + secret,
		"base64":     std([]byte(secret)),
		"url base64": base64.RawURLEncoding.EncodeToString([]byte("Bearer " + secret)),
		"query":      url.QueryEscape(secret),
		"small":      strings.NewReplacer("%2F", "%2f", "%2B", "%2b").Replace(url.QueryEscape(secret)),
		"path":       url.PathEscape(secret),
		"JSON":       `sk-\"live\"/0123456789+abc`,
		"HTML":       html.EscapeString(secret),
		"hex":        hex.EncodeToString([]byte(secret)),
		"HEX":        strings.ToUpper(hex.EncodeToString([]byte(secret))),
	} {
		if got := p.String("x" + echo + "y" + echo); got != "x********y********" {
			t.Errorf("%s: %q", name, got)
		}
	}
	basic := Of("Basic " + std([]byte("user:hunter2-hunter2")))
	if got := basic.String("pass=hunter2-hunter2"); got != "pass=********" {
		t.Errorf("%q", got)
	}
	if got := p.String("nothing here"); got != "nothing here" {
		t.Errorf("%q", got)
	}
	if !Of("short").Empty() || Of("short").String("short") != "short" || Of("short").InName("short") {
		t.Error("a value under 8 bytes would blot out ordinary text")
	}
}

// TestE101Escapes: libraries differ in what they escape besides what they must.
func TestE101Escapes(t *testing.T) {
	const value = `k"/+=<'!~&*(` + "`0123"
	p := Of("Bearer " + value)
	for name, echo := range map[string]string{
		"JSON of PHP":            `k\"\/+=<'!~&*(` + "`0123",
		"JSON of .NET":           `k\u0022/\u002B=\u003C\u0027!~\u0026*(\u00600123`,
		"JSON of Gson":           `k\"/+\u003d\u003c\u0027!~\u0026*(` + "`0123",
		"HTML of Python":         `k&quot;/+=&lt;&#x27;!~&amp;*(` + "`0123",
		"HTML of PHP":            `k&quot;/+=&lt;&#039;!~&amp;*(` + "`0123",
		"HTML of lodash":         `k&quot;/+=&lt;&#39;!~&amp;*(` + "`0123",
		"HTML of .NET":           `k&quot;/&#x2B;=&lt;&#x27;!~&amp;*(&#x60;0123`,
		"HTML of Handlebars":     `k&quot;/+&#x3D;&lt;&#x27;!~&amp;*(&#x60;0123`,
		"HTML of Mustache":       `k&quot;&#x2F;+&#x3D;&lt;&#39;!~&amp;*(&#x60;0123`,
		"quote of Python":        "k%22/%2B%3D%3C%27%21~%26%2A%28%600123",
		"encodeURIComponent":     "k%22%2F%2B%3D%3C'!~%26*(%600123",
		"encodeURI":              "k%22/+=%3C'!~&*(%600123",
		"URLEncoder of Java":     "k%22%2F%2B%3D%3C%27%21%7E%26*%28%600123",
		"the same in lower case": "k%22%2f%2b%3d%3c%27%21%7e%26*%28%600123",
	} {
		if got := p.String("x" + echo + "y"); got != "x********y" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestE101WideCharacters: what a client may get from a server that heeds the
// charset it asks for, in either order of bytes.
func TestE101WideCharacters(t *testing.T) {
	p := Of("Bearer " + secret)
	for width, encode := range map[int]func(b []byte, r rune) []byte{
		2: func(b []byte, r rune) []byte { return binary.BigEndian.AppendUint16(b, uint16(r)) },
		3: func(b []byte, r rune) []byte { return binary.LittleEndian.AppendUint16(b, uint16(r)) },
		4: func(b []byte, r rune) []byte { return binary.BigEndian.AppendUint32(b, uint32(r)) },
		5: func(b []byte, r rune) []byte { return binary.LittleEndian.AppendUint32(b, uint32(r)) },
	} {
		var wide []byte
		for _, r := range secret {
			wide = encode(wide, r)
		}
		for size := 1; size < 9; size++ {
			got := inPieces(NewFilter(p, false), string(wide)+".", size)
			if strings.Trim(got, "\x00") != mask+"." && strings.Trim(strings.TrimSuffix(got, "."), "\x00") != mask {
				t.Errorf("%d in pieces of %d: %q", width, size, got)
			}
		}
	}
}

// TestE101InsideBase64: a longer text that holds the value was encoded, so that
// the value begins at any of the three places a group of characters has.
func TestE101InsideBase64(t *testing.T) {
	for _, value := range []string{secret, "12345678", "123456789", "1234567890"} {
		p := Of("Bearer " + value)
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			for before := range 7 {
				for after := range 4 {
					text := strings.Repeat("<", before) + value + strings.Repeat(">", after)
					blotted := p.String(enc.EncodeToString([]byte(text)))
					if !strings.Contains(blotted, mask) {
						t.Errorf("%q between %d and %d bytes: %s", value, before, after, blotted)
					}
				}
			}
		}
	}
}

func TestE101FieldNames(t *testing.T) {
	p := Of("Bearer Operator-Secret-Value-123456")
	for _, name := range []string{"X-OPERATOR-SECRET-VALUE-123456", "x-operator-secret-value-123456", "Operator-Secret-Value-123456-x"} {
		if !p.InName(name) {
			t.Errorf("%s passes", name)
		}
	}
	for _, name := range []string{"X-Operator-Secret-Value", "Content-Type", ""} {
		if p.InName(name) {
			t.Errorf("%s is taken for a secret", name)
		}
	}
}

// inPieces feeds a filter pieces of a size and returns what comes out.
func inPieces(f *Filter, in string, size int) string {
	var got []byte
	for in != "" {
		n := min(size, len(in))
		got = append(got, f.Feed([]byte(in[:n]), false)...)
		in = in[n:]
	}
	return string(append(got, f.Feed(nil, true)...))
}

func TestFilterAcrossPieces(t *testing.T) {
	p := Of("Bearer " + secret)
	in := "data: " + secret + "\n\ndata: sk-" + secret + "sk-\n\nBearer " + secret + secret
	starred := strings.ReplaceAll(strings.ReplaceAll(in, "Bearer "+secret, strings.Repeat("*", len(secret)+7)), secret, strings.Repeat("*", len(secret)))
	for want, sameLength := range map[string]bool{p.String(in): false, starred: true} {
		for size := 1; size <= len(in); size++ {
			f := NewFilter(p, sameLength)
			if got := inPieces(f, in, size); got != want || f.Waits() {
				t.Fatalf("pieces of %d: %q, want %q", size, got, want)
			}
		}
	}
}

// TestFilterOverlaps: no part of a secret shows where two forms share bytes.
func TestFilterOverlaps(t *testing.T) {
	p := Of("abcabcabcabc")
	for size := 1; size <= 16; size++ {
		if got := inPieces(NewFilter(p, true), "-abcabcabcabcabc-", size); got != "-***************-" && size > 15 || strings.Contains(got, "abcabc") {
			t.Errorf("pieces of %d: %q", size, got)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add([]byte("xx"+secret+"yy"), 3)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		p := Of("Bearer " + secret)
		size = max(1, size%64)
		got := inPieces(NewFilter(p, true), string(in), size)
		if len(got) != len(in) {
			t.Fatalf("%d bytes became %d", len(in), len(got))
		}
		other := inPieces(NewFilter(p, false), string(in), size)
		for _, v := range p.forms {
			if strings.Contains(got, string(v.text)) || strings.Contains(other, string(v.text)) {
				t.Fatalf("%q is still in %q or %q", v.text, got, other)
			}
		}
		if size >= len(in) && other != p.String(string(in)) {
			t.Fatalf("a stream is %q, the whole %q", other, p.String(string(in)))
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	f := NewFilter(Of("Bearer "+secret), true)
	piece := []byte(strings.Repeat("data: {\"text\": \"The quick brown fox, 0123\"}\n\n", 700))
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		f.Feed(piece, false)
	}
}
