package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	var l tail
	if l.String() != "" {
		t.Errorf("empty: %q", l.String())
	}
	fmt.Fprint(&l, "half")
	fmt.Fprint(&l, " line\nthe \x1b[1mnext\nunfinished")
	if want := "\n  half line\n  the \\x1b[1mnext"; l.String() != want {
		t.Errorf("%q, want %q", l.String(), want)
	}
	for i := range tailLines {
		fmt.Fprintf(&l, "\n%d", i)
	}
	got := strings.Split(l.String(), "\n  ")[1:]
	if len(got) != tailLines || got[0] != "unfinished" || got[tailLines-1] != fmt.Sprint(tailLines-2) {
		t.Errorf("%d lines: %q", len(got), got)
	}
}
