package cast

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// clock is a time that a test moves.
type clock struct{ t time.Time }

func newClock() *clock                { return &clock{time.Unix(1_700_000_000, 5e8).UTC()} }
func (c *clock) now() time.Time       { return c.t }
func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }
func open(t *testing.T, o Options) *Recorder {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func options(t *testing.T, c *clock) Options {
	return Options{Dir: filepath.Join(t.TempDir(), "wardyn"), Name: "run", Of: OfMain, Terminal: true, Now: c.now}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// content is a part's events, one a line, and its header.
func content(t *testing.T, o Options, part int) (Header, []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(o.Dir, partName(o.Name, part)))
	must(t, err)
	defer f.Close()
	var out []string
	h, err := Read(f, func(e Event) error {
		out = append(out, fmt.Sprintf("%v %s %q", e.At, e.Kind, e.Data))
		return nil
	})
	must(t, err)
	return h, out
}

// TestK36Terminal: what is kept of a terminal, with its times, sizes and end.
func TestK36Terminal(t *testing.T) {
	c := newClock()
	o := options(t, c)
	o.Title, o.Width, o.Height = "web/agent", 100, 30
	r := open(t, o)
	must(t, r.Output(0, []byte("a\x1b[31m\u202e")))
	c.pass(1500 * time.Millisecond)
	must(t, r.Resize(120, 40), r.Resize(120, 40))
	c.pass(-time.Hour) // a clock that is set back
	must(t, r.Output(0, []byte("b")), r.Close("exit 3"), r.Output(0, []byte("late")), r.Close("exit 4"))
	h, got := content(t, o, 1)
	want := []string{`0s o "a\x1b[31m\u202e"`, `1.5s r "120x40"`, `1.5s o "b"`, `1.5s m "exit 3"`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if h.Version != 2 || h.Width != 100 || h.Height != 30 || h.Title != "web/agent" || h.Timestamp != 1_700_000_000 || h.Source.Made != "host" {
		t.Errorf("%+v", h)
	}
	path := filepath.Join(o.Dir, "run.cast")
	raw, err := os.ReadFile(path)
	must(t, err)
	fi, err := os.Stat(path)
	must(t, err)
	if bytes.ContainsAny(raw, "\x1b\u202e") || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %q", fi.Mode(), raw)
	}
	var nobody *Recorder
	must(t, nobody.Output(0, nil), nobody.Resize(1, 1), nobody.Mark(""), nobody.Close(""))
}

// Characters and secrets are whole wherever reads have cut them, and bytes that
// are no characters are replaced.
func TestI3K36CutAnywhere(t *testing.T) {
	const in, want = "é😀\xff\xfe secret-token-1 \xe2\x82", "é😀\ufffd <secret-hidden> \ufffd"
	for n := 1; n <= len(in); n++ {
		x := NewText([]string{"secret-token-1"}, false)
		var got string
		for p := []byte(in); len(p) > 0; p = p[min(n, len(p)):] {
			got += x.Next(p[:min(n, len(p))])
		}
		got += x.End()
		// How many bytes one replacement stands for depends on the cuts.
		got = strings.ReplaceAll(got, "\ufffd\ufffd", "\ufffd")
		if got != want {
			t.Errorf("by %d: %q", n, got)
		}
	}
}

func TestK36PipesGetATerminalsLineEnds(t *testing.T) {
	c := newClock()
	o := options(t, c)
	o.Terminal = false
	r := open(t, o)
	for _, s := range []string{"a\nb\r", "\nc\n", "\n"} {
		must(t, r.Output(0, []byte(s)))
	}
	must(t, r.Output(1, []byte("err\n")), r.Close(""))
	var all strings.Builder
	f, _ := os.Open(filepath.Join(o.Dir, "run.cast"))
	defer f.Close()
	must(t, Play(&all, f, time.Second, func(time.Duration) {}))
	if all.String() != "a\r\nb\r\nc\r\n\r\nerr\r\n" {
		t.Errorf("%q", all.String())
	}
}

// A recorder that dies leaves a recording that plays, and the next one says so
// and goes on, also behind half a line.
func TestK36InterruptedRecording(t *testing.T) {
	c := newClock()
	o := options(t, c)
	r := open(t, o)
	must(t, r.Output(0, []byte("before")), r.Resize(90, 20))
	path := filepath.Join(o.Dir, "run.cast")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	f.WriteString(`[0.7,"o","half of a li`)
	f.Close()
	c.pass(2 * time.Second)
	if _, got := content(t, o, 1); len(got) != 2 {
		t.Errorf("with half a line: %q", got)
	}
	r = open(t, o)
	must(t, r.Output(0, []byte("after")), r.Resize(90, 20), r.Close("exit 0"))
	_, got := content(t, o, 1)
	want := []string{`0s o "before"`, `0s r "90x20"`, `2s m "the recorder was interrupted here"`, `2s o "after"`, `2s m "exit 0"`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	must(t, os.WriteFile(path, []byte(`{"version": 2, "wi`), 0o600)) // died in its first line
	r = open(t, o)
	must(t, r.Close("exit 1"))
	if _, got := content(t, o, 1); !slices.Equal(got, []string{`0s m "exit 1"`}) {
		t.Errorf("got %q", got)
	}
}

func FuzzK36Text(f *testing.F) {
	f.Add([]byte("secret-token-1\xf0\x9f\x98\x80"), 3, true)
	f.Fuzz(func(t *testing.T, in []byte, n int, pipe bool) {
		n = 1 + n&31
		x := NewText([]string{"secret-token-1"}, pipe)
		var got string
		for p := in; len(p) > 0; p = p[min(n, len(p)):] {
			got += x.Next(p[:min(n, len(p))])
		}
		got += x.End()
		if !utf8.ValidString(got) || strings.Contains(got, "secret-token-1") {
			t.Errorf("%q by %d: %q", in, n, got)
		}
		var back []Event
		file := append(Header{Version: 2}.Line(), Event{Kind: KindOutput, Data: got}.Line()...)
		if _, err := Read(bytes.NewReader(file), func(e Event) error { back = append(back, e); return nil }); err != nil || len(back) != 1 || back[0].Data != got {
			t.Errorf("%q is read as %q, %v", got, back, err)
		}
	})
}

func FuzzK36Read(f *testing.F) {
	f.Add([]byte("{\"version\":2}\n[1.0,\"o\",\"x\"]\n[2"))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, end, err := read(bytes.NewReader(in), func(e Event) error {
			if e.At < 0 {
				t.Errorf("%v", e.At)
			}
			return nil
		})
		if err == nil && (end > int64(len(in)) || in[end-1] != '\n') {
			t.Errorf("ends at %d", end)
		}
	})
}

func TestPlain(t *testing.T) {
	file := Header{Version: 2}.Line()
	for _, e := range []Event{
		{Kind: KindOutput, Data: "a\x1b[1;31mred\x1b[0m\x1b]0;title\x07\x1bPx\x1b\\b\x1b(Bc\u009b2Jd\u202e\r\n"},
		{Kind: KindOutput, Data: "cut \x1b["}, {Kind: KindOutput, Data: "31mhere"},
		{Kind: KindResize, Data: "1x1"}, {Kind: KindMarker, Data: "exit 0"},
	} {
		file = append(file, e.Line()...)
	}
	var out strings.Builder
	must(t, Plain(&out, bytes.NewReader(file)))
	if want := "aredbcd\ncut here\n[exit 0]\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
	if err := Plain(&out, strings.NewReader("nothing of the kind\n")); !errors.Is(err, ErrNoCast) {
		t.Errorf("%v", err)
	}
}
