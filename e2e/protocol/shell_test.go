package protocol

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestK44ShellInTmux: where the image has tmux, who comes back to a shell finds it
// as it was left, with the size of the terminal that is there now. A tmux that cannot
// run, for want of a locale, is in nobody's way.
func TestK44ShellInTmux(t *testing.T) {
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed")
	}
	files := testenv.Programs(t, tmux)
	for _, name := range []string{"x/xterm-256color", "s/screen", "t/tmux-256color"} {
		b, err := os.ReadFile("/lib/terminfo/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files["lib/terminfo/"+name] = string(b)
	}
	bare := testenv.ImageWith(t, testenv.ImageConfig{Cmd: []string{"/bin/sh"}, ExtraFiles: maps.Clone(files)})
	locale, err := filepath.Glob("/usr/lib/locale/C.utf8/LC_CTYPE")
	if err != nil || len(locale) == 0 {
		t.Skip("the locale C.UTF-8 is not installed")
	}
	b, err := os.ReadFile(locale[0])
	if err != nil {
		t.Fatal(err)
	}
	files[locale[0][1:]] = string(b)
	image := testenv.ImageWith(t, testenv.ImageConfig{Cmd: []string{"/bin/sh"}, ExtraFiles: files})
	r := newRig(t)
	each(t, func(t *testing.T, class string) {
		idle := func(image string) *work {
			return r.start(t, class, "", func(s *host.TaskSpec) {
				s.Config = map[string]any{"image": image, "confinement": class, "idle": true}
			})
		}
		plain := idle(bare).attach(t, 80, 24)
		plain.types("echo plain-$((40+2))")
		plain.shows("plain-42")
		plain.leaves()
		w := idle(image)
		one := w.attach(t, 80, 24)
		one.types("left=behind-$((40+2)); echo $left")
		one.shows("behind-42")
		one.types("stty size; printf '\\303\\251tat\\n'")
		one.shows("\u00e9tat")
		one.leaves()
		two := w.attach(t, 100, 30)
		two.types("echo found-$left; stty size")
		two.shows("found-behind-42")
		two.shows(" 100")
		two.leaves()
	})
}

// attached is somebody at a shell.
type attached struct {
	t    *testing.T
	out  output
	keys *io.PipeWriter
	end  context.CancelFunc
	done chan struct{}
}

func (w *work) attach(t *testing.T, width, height int) *attached {
	t.Helper()
	ctx, leave := context.WithCancel(deadline(t))
	keys, typed := io.Pipe()
	sizes := make(chan host.TerminalSize, 1)
	sizes <- host.TerminalSize{Width: width, Height: height}
	a := &attached{t: t, keys: typed, end: leave, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		w.Exec(ctx, host.ExecRequest{Command: []string{"wardyn", "shell"}, TTY: true, Stdin: keys, Resize: sizes, Stdout: &a.out, Stderr: &a.out})
	}()
	return a
}

func (a *attached) types(line string) {
	a.t.Helper()
	if _, err := fmt.Fprint(a.keys, line+"\r"); err != nil {
		a.t.Fatal(err)
	}
}

func (a *attached) shows(text string) {
	a.t.Helper()
	testenv.Eventually(a.t, fmt.Sprintf("%q on the screen", text), func() bool {
		select {
		case <-a.done:
			a.t.Fatalf("the shell has ended: %q", a.out.String())
		default:
		}
		return strings.Contains(a.out.String(), text)
	})
}

// leaves is a connection that ends; the shell is not told to.
func (a *attached) leaves() {
	a.end()
	<-a.done
}
