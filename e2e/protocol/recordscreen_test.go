package protocol

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hinshun/vt10x"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// recordedScreen uses a program that draws all over its terminal, in a terminal
// that changes its size, and compares what an emulator shows of it with what one
// shows of its recording.
func (w *work) recordedScreen(t *testing.T) {
	t.Helper()
	keys, typed := io.Pipe()
	sizes := make(chan host.TerminalSize, 2)
	sizes <- host.TerminalSize{Height: 24, Width: 80}
	var out output
	q := host.ExecRequest{Command: []string{"/bin/busybox", "vi", "/tmp/text"}, TTY: true, Stdin: keys, Resize: sizes, Stdout: &out, Stderr: &out}
	done := make(chan error, 1)
	go func() {
		_, err := w.Exec(deadline(t), q)
		done <- err
	}()
	live := &screen{t: t, out: &out, term: vt10x.New(vt10x.WithSize(80, 24))}
	// What follows an escape key too closely would be taken for a key's sequence.
	const command, insert = "- /tmp/text", "I /tmp/text"
	live.shows(command)
	fmt.Fprint(typed, "ione\r\ttwo \u00e9\rthree")
	live.shows(insert)
	live.shows("three")
	fmt.Fprint(typed, "\x1b")
	live.shows(command)
	fmt.Fprint(typed, "1GOzero")
	live.shows("zero")
	fmt.Fprint(typed, "\x1b")
	live.shows(command)
	live.resize(sizes, 100, 30)
	fmt.Fprint(typed, "Gofour")
	live.shows("four")
	fmt.Fprint(typed, "\x1b")
	live.shows(command)
	fmt.Fprint(typed, "1Gdd")
	live.shows("Delete 1 lines")
	var got string
	name := w.lastExec(t)
	eventually(t, "the recording's screen is the live one", func() bool {
		live.read()
		got = w.replayed(t, name)
		return got == live.text()
	})
	if !strings.Contains(got, "four") || strings.Contains(got, "zero") {
		t.Errorf("the screen:\n%s", got)
	}
	fmt.Fprint(typed, ":q!\r") // leaves the screen that it has drawn on
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	live.read()
	if got := w.replayed(t, name); got != live.text() {
		t.Errorf("the recording's last screen:\n%s\nthe live one:\n%s", got, live.text())
	}
}

// screen is a terminal that shows live output.
type screen struct {
	t    *testing.T
	out  *output
	term vt10x.Terminal
	at   int // of the output, in bytes
}

// read shows what has come.
func (s *screen) read() {
	text := s.out.String()
	fmt.Fprint(s.term, text[s.at:])
	s.at = len(text)
}

// shows waits until the screen has some text.
func (s *screen) shows(want string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%q on the screen", want), func() bool {
		s.read()
		return strings.Contains(s.term.String(), want)
	})
}

// resize changes the size while nothing is drawn, and waits for what the
// program then draws.
func (s *screen) resize(sizes chan<- host.TerminalSize, cols, rows int) {
	s.t.Helper()
	s.read()
	before := s.at
	s.term.Resize(cols, rows)
	sizes <- host.TerminalSize{Height: rows, Width: cols}
	eventually(s.t, "the program draws anew", func() bool {
		s.read()
		return s.at > before
	})
}

func (s *screen) text() string { return shownBy(s.term) }

// shownBy is an emulator's screen, and where its cursor is.
func shownBy(term vt10x.Terminal) string {
	return fmt.Sprintf("%s%+v", term.String(), term.Cursor())
}

// lastExec is the name of the latest recording of a command.
func (w *work) lastExec(t *testing.T) string {
	t.Helper()
	list, err := cast.List(filepath.Join(w.Dir().Dir, "wardyn"), w.run(t)+".exec-")
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	return list[len(list)-1].Name
}

// replayed is the screen at a recording's end.
func (w *work) replayed(t *testing.T, name string) string {
	t.Helper()
	term := vt10x.New(vt10x.WithSize(80, 24))
	err := cast.OpenParts(filepath.Join(w.Dir().Dir, "wardyn"), name, func(_ int, r io.Reader) error {
		_, err := cast.Read(r, func(e cast.Event) error {
			var cols, rows int
			switch e.Kind {
			case cast.KindOutput:
				fmt.Fprint(term, e.Data)
			case cast.KindResize:
				fmt.Sscanf(e.Data, "%dx%d", &cols, &rows)
				term.Resize(cols, rows)
			}
			return nil
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return shownBy(term)
}
