package protocol

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestK36Recording: a task and a terminal in it are recorded outside of the
// sandbox, also by a keeper that is killed, and the sandbox finds no way there.
func TestK36Recording(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, class string) {
		secret := func(s *host.TaskSpec) {
			s.Config["record"], s.Config["record_inside"] = true, true
			s.Config["egress"] = []any{map[string]any{"allow": []any{"api.example"}}}
			s.Config["inject"] = map[string]any{"k": map[string]any{"host": "api.example", "header": "X-Key", "secret_file": "secrets/key"}}
		}
		w := r.prepare(t, class, "echo begun; "+awaitGo+"echo over planted-secret-1; exit 3", secret)
		if err := os.WriteFile(filepath.Join(w.Dir().Dir, "secrets/key"), []byte("planted-secret-1"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.Start(deadline(t)); err != nil {
			t.Fatal(err)
		}
		w.recordedTerminal(t)
		w.recordedScreen(t)
		eventually(t, "a recording", func() bool { return strings.Contains(w.recordingVerb(t, "cat"), "begun\n") })
		eventually(t, "what the sandbox recorded of itself", func() bool {
			list := w.reported(t)
			return len(list) == 1 && strings.Contains(w.plainRecording(t, list[0].Name), "begun\n")
		})
		syscall.Kill(r.keeper(t), syscall.SIGKILL)
		w.release(t)
		w.exits(t, 3)
		want := "begun\n[the recorder was interrupted here]\nover <secret-hidden>\n[exit 3]\n"
		if got := w.plainRecording(t, w.run(t)); got != want {
			t.Errorf("of the main process: %q", got)
		}
		inside := w.reported(t)[0]
		want = "begun\nover <secret-hidden>\n[exit 3]\n"
		if got := w.plainRecording(t, inside.Name); got != want || inside.Made != cast.MadeSandbox || inside.End != "exit 3" {
			t.Errorf("what the sandbox recorded of itself: %+v %q", inside, got)
		}
	})
}

// reported are the recordings that the sandbox has made of itself.
func (w *work) reported(t *testing.T) []cast.Recording {
	t.Helper()
	list, err := cast.List(filepath.Join(w.Dir().Dir, "wardyn"), w.run(t)+".reported-")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// recordingVerb is what the verb recording answers.
func (w *work) recordingVerb(t *testing.T, words ...string) string {
	t.Helper()
	exit, out, errs := w.verb(t, append([]string{"recording"}, words...)...)
	if exit.ExitCode != 0 {
		t.Fatalf("recording %q: %s", words, errs)
	}
	return out
}

// plainRecording is a recording as people read it once its task is gone.
func (w *work) plainRecording(t *testing.T, name string) string {
	t.Helper()
	var out strings.Builder
	err := cast.OpenParts(filepath.Join(w.Dir().Dir, "wardyn"), name, func(_ int, r io.Reader) error { return cast.Plain(&out, r) })
	if err != nil {
		t.Error(err)
	}
	return out.String()
}

// recordedTerminal runs a command on a terminal and reads its recording.
func (w *work) recordedTerminal(t *testing.T) {
	sizes := make(chan host.TerminalSize, 1)
	sizes <- host.TerminalSize{Height: 40, Width: 90}
	exit, _, _ := w.sh(t, "echo typed; find / -name '*.cast' ! -path '/tmp/wardyn-rec/*' 2>/dev/null; exit 7", func(q *host.ExecRequest) { q.TTY, q.Resize = true, sizes })
	if exit.ExitCode != 7 {
		t.Errorf("exit %+v", exit)
	}
	list, err := cast.List(filepath.Join(w.Dir().Dir, "wardyn"), w.run(t)+".exec-")
	if err != nil || len(list) != 1 || list[0].End != "exit 7" || list[0].Made != cast.MadeHost {
		t.Fatalf("%+v, %v", list, err)
	}
	short := strings.TrimPrefix(list[0].Name, w.run(t)+".")
	if got := w.recordingVerb(t, "cat", short); got != "typed\n[exit 7]\n" {
		t.Errorf("of a terminal: %q", got)
	}
	if got := w.recordingVerb(t, "export", short); !strings.Contains(got, `"width":90,"height":40`) {
		t.Errorf("of a terminal: %q", got)
	}
}
