package protocol

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestExec is the exec conformance of Nomad's driver harness and what script
// checks need, in one sandbox a runtime.
func TestExec(t *testing.T) {
	r := newRig(t)
	bothAtOnce(t, func(t *testing.T, class string) {
		w := r.start(t, class, awaitGo)
		t.Run("streams", func(t *testing.T) { w.execStreams(t) })
		t.Run("terminal", func(t *testing.T) { w.execTerminal(t) })
		t.Run("resize", func(t *testing.T) { w.execResize(t) })
		t.Run("background child", func(t *testing.T) { w.execBackground(t) })
		t.Run("client leaves", func(t *testing.T) { w.execLeave(t) })
		t.Run("check", func(t *testing.T) { w.execCheck(t) })
		t.Run("not started", func(t *testing.T) { w.execNotStarted(t) })
		w.release(t)
		w.exits(t, 0)
	})
}

// sh runs a shell command in the task with its streams connected.
func (w *work) sh(t *testing.T, script string, change func(*host.ExecRequest)) (exit host.ExitResult, stdout, stderr string) {
	t.Helper()
	var out, errs output
	q := host.ExecRequest{Command: []string{"/bin/sh", "-c", script}, Stdout: &out, Stderr: &errs}
	if change != nil {
		change(&q)
	}
	exit, err := w.Exec(deadline(t), q)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return exit, out.String(), errs.String()
}

func terminal(q *host.ExecRequest) { q.TTY = true }

func (w *work) execStreams(t *testing.T) {
	for _, c := range []struct {
		script, stdin, stdout, stderr string
		code                          int
	}{
		{"echo hello stdout; echo hello stderr >&2; exit 43", "", "hello stdout\n", "hello stderr\n", 43},
		{"for i in 1 2 3; do echo $i; sleep 0.2; done", "", "1\n2\n3\n", "", 0},
		{"cat; exit 3", "from outside\n", "from outside\n", "", 3},
		{"wc -c", "", "0\n", "", 0},
		{"printf '\\377\\000\\376'", "", "\xff\x00\xfe", "", 0},
		{"kill -9 $$", "", "", "", 137},
	} {
		exit, stdout, stderr := w.sh(t, c.script, func(q *host.ExecRequest) { q.Stdin = strings.NewReader(c.stdin) })
		if exit.ExitCode != c.code || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("%s: exit %+v, %q, %q", c.script, exit, stdout, stderr)
		}
	}
	exit, stdout, stderr := w.sh(t, "stty size", nil)
	if exit.ExitCode == 0 || stdout != "" || stderr == "" {
		t.Errorf("stty without a terminal: %+v, %q, %q", exit, stdout, stderr)
	}
	const much = 8 << 20
	exit, stdout, _ = w.sh(t, "cat", func(q *host.ExecRequest) { q.Stdin = io.LimitReader(endless{}, much) })
	if exit.ExitCode != 0 || len(stdout) != much {
		t.Errorf("%d bytes through cat: exit %+v, %d came back", much, exit, len(stdout))
	}
}

// endless is an input without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func (w *work) execTerminal(t *testing.T) {
	exit, stdout, stderr := w.sh(t, "echo hello stdout; echo hello stderr >&2; exit 43", terminal)
	if exit.ExitCode != 43 || stdout != "hello stdout\r\nhello stderr\r\n" || stderr != "" {
		t.Errorf("exit %+v, %q, %q", exit, stdout, stderr)
	}
	// As a person's, this terminal's input stays open.
	keys, typist := io.Pipe()
	defer typist.Close()
	go typist.Write([]byte("typed\n"))
	exit, stdout, _ = w.sh(t, "read x; echo got $x", func(q *host.ExecRequest) { q.TTY, q.Stdin = true, keys })
	if exit.ExitCode != 0 || !strings.HasPrefix(stdout, "typed\r\n") || !strings.HasSuffix(stdout, "got typed\r\n") {
		t.Errorf("input is not echoed and read: %+v, %q", exit, stdout)
	}
}

// execResize: of two sizes the second holds.
func (w *work) execResize(t *testing.T) {
	sizes := make(chan host.TerminalSize, 2)
	sizes <- host.TerminalSize{Height: 40, Width: 60}
	sizes <- host.TerminalSize{Height: 100, Width: 90}
	exit, stdout, _ := w.sh(t, `n=0; while [ "$(stty size)" != "100 90" ] && [ $n -lt 1000 ]; do sleep 0.1; n=$((n+1)); done; stty size`,
		func(q *host.ExecRequest) { q.TTY, q.Resize = true, sizes })
	if exit.ExitCode != 0 || stdout != "100 90\r\n" {
		t.Errorf("exit %+v, %q", exit, stdout)
	}
}

// execBackground: a child that keeps the streams delays no exit.
func (w *work) execBackground(t *testing.T) {
	for name, tty := range map[string]bool{"streams": false, "terminal": true} {
		start := time.Now()
		exit, stdout, _ := w.sh(t, "(sleep 300; echo late) & echo now; exit 12", func(q *host.ExecRequest) { q.TTY = tty })
		if exit.ExitCode != 12 || strings.TrimSpace(stdout) != "now" {
			t.Errorf("%s: exit %+v, %q", name, exit, stdout)
		}
		if time.Since(start) > limit/2 {
			t.Errorf("%s: the child held the exec up", name)
		}
	}
	w.sh(t, "pkill -f 'sleep 300'", nil)
}

// execLeave: a user who closes the window leaves no process behind.
func (w *work) execLeave(t *testing.T) {
	for name, tty := range map[string]bool{"4711": false, "4712": true} {
		ctx, leave := context.WithCancel(deadline(t))
		var out output
		out.when(1, leave)
		script := "echo here; while true; do sleep " + name + "; done"
		if _, err := w.Exec(ctx, host.ExecRequest{Command: []string{"/bin/sh", "-c", script}, TTY: tty, Stdout: &out}); err == nil {
			t.Error("an exec that was left has no error")
		}
		eventually(t, "the process of a user who left is gone", func() bool {
			_, stdout, _ := w.sh(t, "ps -o args | grep -v grep | grep -c 'sleep "+name[:3]+"["+name[3:]+"]'", nil)
			return stdout == "0\n"
		})
		leave()
	}
}

// execCheck is a script check: output of both streams, the code, a timeout.
func (w *work) execCheck(t *testing.T) {
	check := func(script string, timeout time.Duration) (host.ExecResult, error) {
		return w.rig.ExecTask(deadline(t), w.ID(), []string{"/bin/sh", "-c", script}, timeout)
	}
	res, err := check("echo out; echo err >&2; exit 2", time.Minute)
	if err != nil || res.Exit.ExitCode != 2 || !strings.Contains(string(res.Stdout), "out\n") || !strings.Contains(string(res.Stdout), "err\n") {
		t.Errorf("check: %+v, %v", res, err)
	}
	if _, err := check("echo begun > /local/begun; sleep 4713", 3*time.Second); err == nil {
		t.Error("a check beyond its timeout has no error")
	}
	eventually(t, "the check is gone", func() bool {
		res, err := check("ps -o args | grep -v grep | grep -c 'sleep 471[3]'", 0)
		return err == nil && string(res.Stdout) == "0\n"
	})
}

// execNotStarted: what could not run is an error or a code that says so, and
// never success.
func (w *work) execNotStarted(t *testing.T) {
	for _, argv := range [][]string{{"/no/such/program"}, {"/etc/passwd"}, {"no-such-program"}} {
		exit, err := w.Exec(deadline(t), host.ExecRequest{Command: argv})
		if err == nil && exit.ExitCode != 126 && exit.ExitCode != 127 {
			t.Errorf("%q: %+v", argv, exit)
		}
		res, err := w.rig.ExecTask(deadline(t), w.ID(), argv, 0)
		if err == nil && res.Exit.ExitCode != 126 && res.Exit.ExitCode != 127 {
			t.Errorf("%q as a check: %+v", argv, res)
		}
	}
	if _, err := w.Exec(deadline(t), host.ExecRequest{}); err == nil {
		t.Error("an exec without a command has no error")
	}
	if _, err := w.rig.ExecTask(deadline(t), "no/such/task", []string{"true"}, 0); err == nil {
		t.Error("an exec in an unknown task has no error")
	}
}
