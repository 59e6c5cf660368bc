package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestLinesStayWhole(t *testing.T) {
	var out, err bytes.Buffer
	p := newPrinter(&out, &err, []string{"web", "longer"})
	web, side := p.stdout("web"), p.stderr("longer")
	for _, piece := range []string{"on", "e\ntw", "o\n\nthree\nfo"} {
		if n, werr := web.Write([]byte(piece)); n != len(piece) || werr != nil {
			t.Fatalf("Write = %d, %v", n, werr)
		}
	}
	side.Write([]byte("error\n"))
	p.event("web", "Terminated: exit code %d", 3)
	web.Flush()
	web.Flush()
	side.Flush()
	if want := "web    | one\nweb    | two\nweb    | \nweb    | three\nweb    | fo\n"; out.String() != want {
		t.Errorf("stdout:\n%swant:\n%s", out.String(), want)
	}
	if want := "longer | error\nweb    * Terminated: exit code 3\n"; err.String() != want {
		t.Errorf("stderr:\n%swant:\n%s", err.String(), want)
	}
}

func TestLongestLine(t *testing.T) {
	for _, c := range []struct{ first, lines int }{{longestLine - 1, 1}, {longestLine, 2}} {
		var out bytes.Buffer
		w := newPrinter(&out, &out, []string{"t"}).stdout("t")
		w.Write(bytes.Repeat([]byte("x"), c.first))
		w.Write([]byte("tail\n"))
		w.Flush()
		if got := strings.Count(out.String(), "\n"); got != c.lines || strings.Count(out.String(), "x") != c.first {
			t.Errorf("a line of %d bytes and a tail gave %d lines, want %d", c.first, got, c.lines)
		}
	}
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain text, ünïcode 漢字", "plain text, ünïcode 漢字"},
		{"a\x1b[31mred", `a\x1b[31mred`},
		{"one\ntwo\r\t\x00", `one\ntwo\r\t\x00`},
		{"exe\u202etxt", `exe\u202etxt`},
		{"zero\u200bwidth\u0085", `zero\u200bwidth\u0085`},
		{"bad\xff", `bad\ufffd`},
	} {
		if got := printable(c.in); got != c.want {
			t.Errorf("printable(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}
