package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
)

// Libraries differ in what they escape besides what they must. A credential has
// such characters often enough: those of base64 are + / and =.
var (
	// onJSON are applied to a JSON string in which only what must be is escaped.
	onJSON = []*strings.Replacer{
		strings.NewReplacer(),
		strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`),                               // Go, Rails
		strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "=", `\u003d`, "'", `\u0027`), // Gson
		strings.NewReplacer("/", `\/`), // PHP
		strings.NewReplacer(`\\`, `\\`, `\"`, `\u0022`, "<", `\u003C`, ">", `\u003E`, "&", `\u0026`, // .NET
			"'", `\u0027`, "+", `\u002B`, "`", `\u0060`),
	}
	// onText make HTML of a text.
	onText = []*strings.Replacer{
		markup(`"`, "&quot;"),
		markup(`"`, "&quot;", "'", "&#39;"),                                              // lodash, Spring
		markup(`"`, "&quot;", "'", "&#039;"),                                             // PHP
		markup(`"`, "&quot;", "'", "&#x27;"),                                             // Python
		markup(`"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "+", "&#x2B;"),               // .NET
		markup(`"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "=", "&#x3D;"),               // Handlebars
		markup(`"`, "&quot;", "'", "&#39;", "`", "&#x60;", "=", "&#x3D;", "/", "&#x2F;"), // Mustache
	}
	// unescaped are the signs that functions leave as they are where they
	// percent-encode: those of RFC 3986, Python's quote, JavaScript's
	// encodeURIComponent and encodeURI, and Java's URLEncoder.
	unescaped = []string{"-._~", "-._~/", "-._~!*'()", "-._~!*'();/?:@&=+$,#", "-._*"}
)

func markup(more ...string) *strings.Replacer {
	return strings.NewReplacer(append([]string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}, more...)...)
}

// escapedForms are those that leave letters and digits as they are.
func escapedForms(v string) []string {
	out := []string{html.EscapeString(v)}
	for _, r := range onText {
		out = append(out, r.Replace(v))
	}
	percent := []string{url.QueryEscape(v), url.PathEscape(v)}
	for _, keep := range unescaped {
		percent = append(percent, percentEncoded(v, keep))
	}
	for _, escaped := range percent {
		out = append(out, escaped, lowerPercent(escaped))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) == nil {
		for _, r := range onJSON {
			out = append(out, r.Replace(strings.TrimSuffix(b.String()[1:], "\"\n")))
		}
	}
	return out
}

// percentEncoded leaves letters, digits and some signs.
func percentEncoded(v, keep string) string {
	var out strings.Builder
	for _, c := range []byte(v) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(keep, c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// lowerPercent writes the hexadecimal digits behind percent signs in lower case.
func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}
