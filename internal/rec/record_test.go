package rec

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
)

// recording is what lies in a file: its header, and its events, one a line.
func recording(t *testing.T, path string) (cast.Header, []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var events []string
	h, err := cast.Read(f, func(e cast.Event) error {
		events = append(events, e.Kind+" "+e.Data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, events
}

// all is the text of the events of one kind.
func all(events []string, kind string) string {
	var out strings.Builder
	for _, e := range events {
		if s, ok := strings.CutPrefix(e, kind+" "); ok {
			out.WriteString(s)
		}
	}
	return out.String()
}

func TestW2RecorderUsage(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-run", "r"}, {"-run", "r", "--"}, {"-run", "r", "true"}, {"-run", "r", "--", ""}, {"-cast-dir", dir, "--", "true"},
		{"-run", "../r", "--", "true"}, {"-run", "r", "-frobnicate", "--", "true"}, {"-run", "r", "-limit", "7", "--", "true"},
		{"-run", "r", "-upload-url", "https://proxy:443/x", "--", "true"}, {"-run", "r", "-upload-url", "nowhere", "--", "true"},
		{"-run", "r", "-out-dir", dir, "-upload-url", "http://proxy:3128/x", "--", "true"},
	} {
		if got := code(t, wardynRec(t, args...).Run()); got != exitUsage {
			t.Errorf("%q: exit %d, want %d", args, got, exitUsage)
		}
	}
}

// W3, W7, W9, W10, B19: without a terminal both outputs are recorded and stay
// what they are, and the code is the command's.
func TestW7RecordsPipes(t *testing.T) {
	dir, shared := filepath.Join(t.TempDir(), "log"), t.TempDir()
	cmd := wardynRec(t, "-cast-dir", dir, "-out-dir", shared, "-run", "r", "--", "sh", "-c", "echo out; echo err >&2; cat; exit 3")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("in\n"), &out, &errs
	if got := code(t, cmd.Run()); got != 3 || out.String() != "out\nin\n" || errs.String() != "err\n" {
		t.Errorf("exit %d, %q, %q", got, out.String(), errs.String())
	}
	h, events := recording(t, filepath.Join(shared, "r.cast"))
	if h.Source.Made != cast.MadeSandbox || h.Source.Terminal || len(all(events, "o")) != len("out\r\nin\r\nerr\r\n") || all(events, "m") != "exit 3" {
		t.Errorf("%+v %q", h, events)
	}
	fi, err := os.Stat(dir)
	if err != nil || fi.Mode().Perm()&^0o750 != 0 {
		t.Errorf("the folder: %v, %v", fi.Mode(), err)
	}
}

// W10: a recording costs the command nothing.
func TestW10CommandRunsWithoutItsRecording(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no folder":  {"-cast-dir", file},
		"no out-dir": {"-cast-dir", t.TempDir(), "-out-dir", file},
	} {
		cmd := wardynRec(t, append(args, "-run", "r", "--", "sh", "-c", "echo $0; exit 4", "it runs")...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if got := code(t, cmd.Run()); got != 4 || out.String() != "it runs\n" || !strings.Contains(errs.String(), "record") {
			t.Errorf("%s: exit %d, %q, %q", name, got, out.String(), errs.String())
		}
	}
	if got := code(t, wardynRec(t, "-cast-dir", t.TempDir(), "-run", "r", "--", "no-such-program").Run()); got != 127 {
		t.Errorf("no such program: exit %d", got)
	}
}

// W15: signals reach the command, and its death by one is told.
func TestW15SignalsReachTheCommand(t *testing.T) {
	dir := t.TempDir()
	cmd := wardynRec(t, "-cast-dir", dir, "-run", "r", "--", "sh", "-c", "trap 'echo term; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
	l := readLines(t, cmd)
	l.want("ready")
	cmd.Process.Signal(syscall.SIGTERM)
	l.want("term")
	if got := code(t, cmd.Wait()); got != 9 {
		t.Errorf("exit %d", got)
	}
	if _, events := recording(t, filepath.Join(dir, "r.cast")); all(events, "m") != "exit 9" {
		t.Errorf("%q", events)
	}
	if got := code(t, wardynRec(t, "-cast-dir", dir, "-run", "k", "--", "sh", "-c", "kill -KILL $$").Run()); got != 137 {
		t.Errorf("killed: exit %d", got)
	}
}

// W5, W6, W8, B17, B18: asciinema records where the image has it; arguments
// arrive as they are, signals too, and the code is the command's.
func TestW5Asciinema(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	fake := "#!/bin/sh\n[ \"$1\" = --version ] && { echo asciinema 3.0.1; exit 0; }\nwhile [ $# -gt 1 ]; do [ \"$1\" = -c ] && c=$2; printf '%s|' \"$1\" >>\"$ASCIINEMA_ARGS\"; shift; done\n" +
		"sh -c \"$c\"\nprintf '{\"version\": 2, \"width\": 80, \"height\": 24}\\n[0.1, \"o\", \"by asciinema\"]\\n' >\"$1\"\nexit 0\n"
	if err := os.WriteFile(filepath.Join(bin, "asciinema"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	words := []string{"", "it's", "a b", "$(id)", "`id`", "\"q\"", "new\nline", "-c", "; exit 1", "é", "\\"}
	script := "for a in \"$@\"; do printf '<%s>' \"$a\"; done; exit 42"
	cmd := wardynRec(t, append([]string{"-cast-dir", dir, "-run", "r", "--", "sh", "-c", script, "sh"}, words...)...)
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "ASCIINEMA_ARGS=" + filepath.Join(dir, "args")}
	screen, got := onTestTerminal(t, cmd, 80, 24, nil)
	if want := "<" + strings.ReplaceAll(strings.Join(words, "><"), "\n", "\r\n") + ">"; got != 42 || screen != want {
		t.Errorf("exit %d, %q, want %q", got, screen, want)
	}
	if _, events := recording(t, filepath.Join(dir, "r.cast")); all(events, "o") != "by asciinema" {
		t.Errorf("%q", events)
	}
	args, _ := os.ReadFile(filepath.Join(dir, "args"))
	if s := string(args); !strings.HasPrefix(s, "rec|-q|-c|") || !strings.HasSuffix(s, "--output-format|asciicast-v2|") {
		t.Errorf("arguments %q", s)
	}
}

// W5 with the real one: what it writes is read, and its screen is the command's.
func TestW5RealAsciinema(t *testing.T) {
	if _, err := exec.LookPath("asciinema"); err != nil {
		t.Skip("asciinema is not installed")
	}
	dir := t.TempDir()
	cmd := wardynRec(t, "-cast-dir", dir, "-run", "r", "--", "sh", "-c", "echo one; kill -TERM $$")
	if screen, got := onTestTerminal(t, cmd, 80, 24, nil); got != 143 || !strings.Contains(screen, "one\r\n") {
		t.Errorf("exit %d, %q", got, screen)
	}
	if h, events := recording(t, filepath.Join(dir, "r.cast")); h.Width != 80 || !strings.HasPrefix(all(events, "o"), "one\r\n") {
		t.Errorf("%+v %q", h, events)
	}
}

// W16: what was recorded before a sandbox is killed has been delivered; a piece
// whose answer was lost is not delivered twice.
func TestW16DeliversWhileItRecords(t *testing.T) {
	to := newReceiver(t)
	cmd := wardynRec(t, "-cast-dir", t.TempDir(), "-upload-url", to.url, "-run", "r", "--", "sh", "-c", "echo first; echo $$ >&2; exec sleep 1000")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was recorded", func() bool { return strings.Contains(to.text(), "first") })
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Wait()

	to.lose(1)
	if got := code(t, wardynRec(t, "-cast-dir", t.TempDir(), "-upload-url", to.url, "-run", "s", "--", "sh", "-c", "echo second; exit 6").Run()); got != 6 {
		t.Errorf("exit %d", got)
	}
	if got := to.text(); strings.Count(got, "second") != 1 || !strings.Contains(got, `"exit 6"`) {
		t.Errorf("delivered %q", got)
	}
	if kinds := to.kinds(); !slices.ContainsFunc(kinds, func(k string) bool { return strings.HasPrefix(k, "application/x-asciicast; session=") }) {
		t.Errorf("types %q", kinds)
	}
}

// A delivery that is refused is given up, and said once.
func TestW10RefusedDelivery(t *testing.T) {
	to := newReceiver(t)
	to.refuse(403)
	cmd := wardynRec(t, "-cast-dir", t.TempDir(), "-upload-url", to.url, "-run", "r", "--", "sh", "-c", "echo x; exit 6")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	begun := time.Now()
	if got := code(t, cmd.Run()); got != 6 || strings.Count(errs.String(), "not delivered") != 1 {
		t.Errorf("exit %d after %v, %q", got, time.Since(begun), errs.String())
	}
}

// The recorder's own terminal: size, its changes, exit code, what is typed.
func TestW17RecordsATerminal(t *testing.T) {
	dir, to := t.TempDir(), newReceiver(t)
	script := "stty size; trap 'stty size' WINCH; read a; echo got $a; while ! read b; do :; done; tty >/dev/null && exit 5"
	cmd := wardynRec(t, "-cast-dir", dir, "-upload-url", to.url, "-asciinema", "no-such-program", "-run", "r", "--", "sh", "-c", script)
	screen, got := onTestTerminal(t, cmd, 100, 30, func(term *os.File, seen func(string)) {
		seen("30 100")
		fmt.Fprint(term, "typed\r")
		seen("got typed")
		resize(t, term, 120, 40)
		seen("40 120")
		fmt.Fprint(term, "\r")
	})
	if got != 5 || !strings.Contains(screen, "40 120") {
		t.Errorf("exit %d, %q", got, screen)
	}
	h, events := recording(t, filepath.Join(dir, "r.cast"))
	if h.Width != 100 || h.Height != 30 || all(events, "o") != screen || all(events, "r") != "120x40" || all(events, "i") != "typed\r\r" || all(events, "m") != "exit 5" {
		t.Errorf("%+v %q, screen %q", h, events, screen)
	}
}
