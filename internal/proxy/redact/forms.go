package redact

import (
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
)

// shortest is the length below which a value is no secret to look for.
const shortest = 8

// form is one way in which a secret may be written.
type form struct {
	text []byte
	// held is how many of its first bytes go on when the stream pauses behind
	// them. Whoever has an origin send a guess back sees whether it waits, and
	// if a beginning of any length did he would have the secret one character
	// after the other. Half of what nobody knows cannot be guessed.
	held    int
	encoded bool // no character of it stays as it is
}

// formsOf are the forms in which a header value may come back: as it is, its
// part behind the scheme, what a Basic value encodes; and each of them
// percent-encoded, as it stands in JSON and HTML, in UTF-16 and UTF-32, in
// hexadecimal, and in base64, alone or somewhere in a longer text that was
// encoded. None of them has a line break inside.
func formsOf(value string) []form {
	var out []form
	for _, v := range plainForms(value) {
		if len(v.text) < shortest {
			continue
		}
		known := max(v.known, publicPart(v.text))
		add := func(encoded bool, texts ...string) {
			for _, text := range texts {
				if len(text) >= shortest && !hasForm(out, text) {
					held := len(text) * (known + len(v.text)) / (2 * len(v.text))
					out = append(out, form{text: []byte(text), held: held, encoded: encoded})
				}
			}
		}
		add(false, v.text)
		add(false, escapedForms(v.text)...)
		add(false, wide(v.text, 1), wide(v.text, 3))
		add(true, encodedForms(v.text)...)
	}
	return out
}

func hasForm(all []form, text string) bool {
	for _, f := range all {
		if string(f.text) == text {
			return true
		}
	}
	return false
}

// plain is what a value comes to, and how many of its first bytes anybody may
// know.
type plain struct {
	text  string
	known int
}

func plainForms(value string) []plain {
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok {
		return []plain{{value, 0}}
	}
	before := len(scheme) + 1
	decoded, err := base64.StdEncoding.DecodeString(rest)
	if err != nil || !strings.EqualFold(scheme, "Basic") {
		return []plain{{value, before + publicPart(rest)}, {rest, 0}}
	}
	user, pass, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return []plain{{value, before}, {rest, 0}, {string(decoded), 0}}
	}
	coded := min(base64.StdEncoding.EncodedLen(len(user)+1), len(rest))
	return []plain{{value, before + coded}, {rest, coded}, {string(decoded), len(user) + 1}, {pass, 0}}
}

// publicPart is how much of a token anybody may know: all before the last point
// of a signed one (RFC 7519), and else the words that many begin with to name
// their kind.
func publicPart(token string) int {
	if at := strings.LastIndexByte(token, '.') + 1; at > 0 && len(token)-at >= shortest {
		return at
	}
	return len(kind.FindString(token))
}

// kind matches beginnings such as "github_pat_" and "sk-ant-api03-".
var kind = regexp.MustCompile("^([a-z]{1,8}[0-9]{0,2}[_-])+")

// wide is v in characters of more than one byte, in either order of bytes: what
// stands before its first or behind its last zeros is left to the text around.
func wide(v string, zeros int) string {
	return strings.Join(strings.Split(v, ""), strings.Repeat("\x00", zeros))
}

// encodedForms are those in which no character stays as it is.
func encodedForms(v string) []string {
	h := hex.EncodeToString([]byte(v))
	out := []string{h, strings.ToUpper(h)}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString([]byte(v)))
		for before := range 3 {
			out = append(out, core(enc, v, before))
		}
	}
	return out
}

// core is what base64 makes of v behind so many bytes of other text (modulo
// three), without the characters at both ends that the text around it shares.
func core(enc *base64.Encoding, v string, before int) string {
	coded := enc.EncodeToString(append(make([]byte, before), v...))
	first := (before*8 + 5) / 6
	last := (before + len(v)) * 8 / 6
	return coded[first:last]
}
