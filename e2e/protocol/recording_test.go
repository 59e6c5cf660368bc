package protocol

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cast"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestK36Recording: a task and a terminal in it are recorded outside of the
// sandbox, also by a keeper that is killed, and the sandbox finds no way there.
func TestK36Recording(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, class string) {
		secret := func(s *host.TaskSpec) {
			s.Config["record"] = true
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
		sizes := make(chan host.TerminalSize, 1)
		sizes <- host.TerminalSize{Height: 40, Width: 90}
		exit, _, _ := w.sh(t, "echo typed; find / -name '*.cast' 2>/dev/null; exit 7", func(q *host.ExecRequest) { q.TTY, q.Resize = true, sizes })
		if exit.ExitCode != 7 {
			t.Errorf("exit %+v", exit)
		}
		recorded := func(words ...string) string {
			var out output
			if _, err := w.Exec(deadline(t), host.ExecRequest{Command: append([]string{"wardyn", "recording"}, words...), Stdout: &out, Stderr: &out}); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		for ctx := deadline(t); !strings.Contains(recorded("cat"), "begun\n"); time.Sleep(50 * time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatal("nothing is recorded")
			}
		}
		syscall.Kill(r.keeper(t), syscall.SIGKILL)
		w.release(t)
		w.exits(t, 3)
		list, err := cast.List(filepath.Join(w.Dir().Dir, "wardyn"), "")
		if err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, x := range list {
			want := map[string]string{cast.OfMain: "exit 3", cast.OfExec: "exit 7"}[x.Of]
			if x.End != want || x.Bytes == 0 {
				t.Errorf("%+v: want %s", x, want)
			}
			if x.Of == cast.OfExec {
				short := x.Name[strings.Index(x.Name, ".exec-")+1:]
				if got := recorded("cat", short); got != "typed\n[exit 7]\n" {
					t.Errorf("of a terminal: %q", got)
				}
				if got := recorded("export", short); !strings.Contains(got, `"width":90,"height":40`) {
					t.Errorf("of a terminal: %q", got)
				}
			}
		}
		want := "begun\n[the recorder was interrupted here]\nover <secret-hidden>\n[exit 3]\n"
		if got := recorded("cat"); got != want {
			t.Errorf("of the main process: %q", got)
		}
	})
}
