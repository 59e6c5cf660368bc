package redact

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// shortest is the length below which a value is no secret to look for.
const shortest = 8

// form is one way in which a secret may be written.
type form struct {
	text []byte
	// held is how many of its first bytes are let go before what follows is
	// known. Readable forms keep everything back. The first characters of an
	// encoded one could be anything, and a stream must not wait for them.
	held int
}

// encodedLead is how many characters of an encoded form may go on before it is
// known to be one: 18 bits of a secret at most.
const encodedLead = 3

// formsOf are the forms in which a header value may come back: as it is, its
// part behind the scheme, what a Basic value encodes; and each of them
// percent-encoded, as it stands in JSON and HTML, in UTF-16 and UTF-32, in
// hexadecimal, and in base64, alone or somewhere in a longer text that was
// encoded.
func formsOf(value string) []form {
	var out []form
	add := func(text string, held int) {
		if len(text) >= shortest && !hasForm(out, text) {
			out = append(out, form{text: []byte(text), held: held})
		}
	}
	for _, v := range plainForms(value) {
		if len(v) < shortest {
			continue
		}
		add(v, 0)
		for _, escaped := range escapedForms(v) {
			add(escaped, 0)
		}
		for _, zeros := range []int{1, 3} {
			add(wide(v, zeros), 0)
		}
		for _, encoded := range encodedForms(v) {
			add(encoded, encodedLead)
		}
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

func plainForms(value string) []string {
	out := []string{value}
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok {
		return out
	}
	out = append(out, rest)
	if strings.EqualFold(scheme, "Basic") {
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil {
			out = append(out, string(plain))
			if _, pass, ok := strings.Cut(string(plain), ":"); ok {
				out = append(out, pass)
			}
		}
	}
	return out
}

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
