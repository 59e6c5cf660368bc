package protocol

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// verb uses one of the plugin's own verbs on the task.
func (w *work) verb(t *testing.T, words ...string) (exit host.ExitResult, stdout, stderr string) {
	t.Helper()
	return w.sh(t, "", func(q *host.ExecRequest) { q.Command = append([]string{"wardyn"}, words...) })
}

// TestFreezeAndSnapshot: the verbs that stop, let go on and copy a sandbox.
func TestFreezeAndSnapshot(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, class string) {
		w := r.start(t, class, "trap 'echo hup >> /local/hups' HUP; i=0; while [ ! -e /local/go ]; do i=$((i+1)); echo $i > /local/n; sleep 0.05; done; exit 7")
		eventually(t, "it counts", func() bool { return w.count(t) != "" })
		if exit, out, errs := w.verb(t, "suspend"); exit.ExitCode != 0 || out != "suspended\n" {
			t.Fatalf("suspend: %+v, %q, %q", exit, out, errs)
		}
		frozen, hups := w.count(t), filepath.Join(w.Dir().Local, "hups")
		if err := w.Signal(deadline(t), "SIGHUP"); err != nil { // else a client ends the task whose token it has renewed
			t.Error(err)
		}
		t.Run("K11 across a restart of the plugin", func(t *testing.T) {
			h := w.stored(t)
			r.restart(t)
			w.resume(t, h)
			if _, out, _ := w.verb(t, "status"); !strings.Contains(out, "suspended") {
				t.Errorf("status: %q", out)
			}
			err := execError(t, w)
			if err == nil || !strings.Contains(err.Error(), "suspended") {
				t.Errorf("exec while it is frozen: %v", err)
			}
		})
		if now := w.count(t); now != frozen {
			t.Errorf("it went on from %s to %s", frozen, now)
		}
		if exit, _, errs := w.verb(t, "resume"); exit.ExitCode != 0 {
			t.Errorf("resume: %q", errs)
		}
		eventually(t, "it is told what it was sent while it was frozen", func() bool { b, _ := os.ReadFile(hups); return string(b) == "hup\n" })
		eventually(t, "it counts on", func() bool { return w.count(t) != frozen && w.count(t) != "" })
		t.Run("K44 shell", func(t *testing.T) { w.shell(t) })
		if class == "CC1" {
			t.Run("K30 snapshot", func(t *testing.T) { w.snapshot(t) })
		}
		w.release(t)
		w.exits(t, 7)
		t.Run("K14 parked", func(t *testing.T) { r.parked(t, class) })
		t.Run("K14 plugin killed in a park", func(t *testing.T) { r.parkKilled(t, class) })
	})
}

func execError(t *testing.T, w *work) error {
	t.Helper()
	var out, errs output
	_, err := w.Exec(deadline(t), host.ExecRequest{Command: []string{"true"}, Stdout: &out, Stderr: &errs})
	return err
}

// count is what the task has counted to.
func (w *work) count(t *testing.T) string {
	t.Helper()
	b, _ := os.ReadFile(filepath.Join(w.Dir().Local, "n")) // not there before it has begun
	return strings.TrimSpace(string(b))
}

func (w *work) shell(t *testing.T) {
	_, out, _ := w.sh(t, "", func(q *host.ExecRequest) {
		q.Command, q.TTY = []string{"wardyn", "shell"}, true
		q.Stdin = strings.NewReader("echo in-$((40+2)) $TERM; exit\n")
	})
	if !strings.Contains(out, "in-42 xterm-256color") {
		t.Errorf("shell: %q", out)
	}
	if err := shellError(t, w); err == nil || !strings.Contains(err.Error(), "-i -t") {
		t.Errorf("without a terminal: %v", err)
	}
}

func shellError(t *testing.T, w *work) error {
	t.Helper()
	var out, errs output
	_, err := w.Exec(deadline(t), host.ExecRequest{Command: []string{"wardyn", "shell"}, Stdout: &out, Stderr: &errs})
	return err
}

func (w *work) snapshot(t *testing.T) {
	if exit, _, errs := w.sh(t, "echo work > /made", nil); exit.ExitCode != 0 {
		t.Fatal(errs)
	}
	exit, ref, errs := w.verb(t, "snapshot", "mine")
	if exit.ExitCode != 0 || ref != "wardyn-snap/default/mine\n" {
		t.Fatalf("%+v, %q, %q", exit, ref, errs)
	}
	next := w.rig.start(t, "CC1", "cat /made", with(map[string]any{"image": "wardyn-snap/default/mine"}))
	next.exits(t, 0)
	if next.out.String() != "work\n" {
		t.Errorf("from the snapshot: %q, %q", next.out.String(), next.err.String())
	}
	other := w.rig.prepare(t, "CC1", "cat /made", with(map[string]any{"image": "wardyn-snap/team/mine"}))
	if err := other.Start(deadline(t)); err == nil || !strings.Contains(err.Error(), "another namespace") {
		t.Errorf("of another namespace: %v", err)
	}
}
