// Package clean makes what a sandbox wrote fit to be kept and shown: values
// that are secret are hidden, and characters that act on a terminal escaped.
package clean

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

const (
	// Shortest is the length of the shortest secret that is hidden: shorter
	// ones would blot out ordinary text.
	Shortest = 8
	// Hidden stands in a secret's place.
	Hidden = "<secret-hidden>"
)

// Order sorts values for a search that must find the longest: without doubles,
// the longest first. It works in place.
func Order(values [][]byte) [][]byte {
	slices.SortFunc(values, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b))
	})
	return slices.CompactFunc(values, bytes.Equal)
}

// Visible escapes what is not printable in JSON, where it can only stand in strings.
func Visible(b []byte) []byte {
	out := make([]byte, 0, len(b)+1)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			out = append(out, b[:n]...)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out
}
