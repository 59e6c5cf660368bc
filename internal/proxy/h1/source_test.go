package h1

import (
	"io"
	"strings"
	"testing"
)

// A buffer that was released is some other source's: neither sees the other's
// bytes, and one that is released twice is nobody's twice.
func TestReleasedBuffersAreNotShared(t *testing.T) {
	source := func(text string) *Source {
		return NewSource(io.MultiReader(strings.NewReader(text), strings.NewReader("second "+text)))
	}
	fill := func(sources ...*Source) {
		for _, s := range sources {
			if err := s.Fill(MaxRequestHead); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := source("a")
	fill(a)
	a.Release() // it holds something: nothing happens
	a.Discard(1)
	a.Release()
	a.Release()
	b, c := source("b"), source("c")
	fill(b, c)
	if x, y := string(b.Buffered()), string(c.Buffered()); x != "b" || y != "c" {
		t.Errorf("%q %q", x, y)
	}
	b.Discard(1)
	c.Discard(1)
	fill(a, b, c)
	if x, y, z := string(a.Buffered()), string(b.Buffered()), string(c.Buffered()); x != "second a" || y != "second b" || z != "second c" {
		t.Errorf("%q %q %q", x, y, z)
	}
}

// One that outgrows its first buffer keeps what it holds.
func TestSourceOutgrowsItsFirstBuffer(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 2*firstBuffer/16)
	s := NewSource(strings.NewReader(text))
	for len(s.Buffered()) < len(text) {
		if err := s.Fill(MaxRequestHead); err != nil {
			t.Fatal(err)
		}
	}
	other := NewSource(strings.NewReader(strings.Repeat("x", firstBuffer)))
	if err := other.Fill(MaxRequestHead); err != nil || string(s.Buffered()) != text {
		t.Errorf("%v, %.40q...", err, s.Buffered())
	}
}
