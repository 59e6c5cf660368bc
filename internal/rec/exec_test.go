package rec

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

func TestK10StreamsAndStdin(t *testing.T) {
	cmd := wardynRec(t, "exec", "e1", "--", "sh", "-c", "cat; echo err >&2; exit 3")
	cmd.Stdin = strings.NewReader("from stdin\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if got := code(t, cmd.Run()); got != 3 || out.String() != "from stdin\n" || errs.String() != "err\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", got, out.String(), errs.String())
	}
}

func TestF15BackgroundChildHoldsTheOutput(t *testing.T) {
	// The reader waits for the end of the stream, as an engine does.
	mark := marked(t, 98625)
	cmd := wardynRec(t, "exec", "e2", "--", "sh", "-c", "seq 20000; "+mark+" & exit 3")
	out, err := cmd.Output()
	if got := code(t, err); got != 3 || !bytes.HasSuffix(out, []byte("\n20000\n")) {
		t.Errorf("exit %d, output ends %q", got, out[max(0, len(out)-20):])
	}
	// It may still be the shell's fork when the shell has ended.
	eventually(t, "the background child lives on", func() bool { return running(mark) == 1 })
}

func TestF15OutputAtExitIsDeliveredToASlowReader(t *testing.T) {
	mark := marked(t, 9865)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// More than the reader's pipe holds, less than both.
	done := filepath.Join(t.TempDir(), "done")
	cmd := wardynRec(t, "exec", "e3", "--", "sh", "-c", mark+" & head -c 200000 /dev/zero; : >"+done+"; exit 3")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	eventually(t, "the command has ended", func() bool {
		_, err := os.Stat(done)
		return err == nil && len(children(cmd.Process.Pid)) == 0
	})
	got, err := io.ReadAll(r)
	if err != nil || len(got) != 200000 {
		t.Errorf("read %d bytes, %v; want 200000", len(got), err)
	}
	if c := code(t, cmd.Wait()); c != 3 {
		t.Errorf("exit %d, want 3", c)
	}
}

func TestF21LargeOutputIsWhole(t *testing.T) {
	out, err := wardynRec(t, "exec", "e4", "--", "sh", "-c", "seq 2000000").Output()
	want, _ := exec.Command("seq", "2000000").Output()
	if code(t, err) != 0 || !bytes.Equal(out, want) {
		t.Errorf("%v, %d bytes, want %d", err, len(out), len(want))
	}
}

func TestF17ReaderGoneEndsTheExec(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// SIGPIPE alone would not end this one.
	cmd := wardynRec(t, "exec", "e5", "--", "sh", "-c", "trap '' PIPE; while :; do echo x; done 2>/dev/null")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	r.Read(make([]byte, 1))
	child := childOf(t, cmd.Process.Pid)
	r.Close()
	if got := code(t, cmd.Wait()); got != exitPipe {
		t.Errorf("exit %d, want %d", got, exitPipe)
	}
	eventually(t, "the command is gone", func() bool { return syscall.Kill(child, 0) == syscall.ESRCH })
}

func TestExecForwardsToTheWholeGroup(t *testing.T) {
	cmd := wardynRec(t, "exec", "e6", "--", "sh", "-c", "trap : TERM; sh -c 'trap \"echo inner; exit\" TERM; echo ready; while :; do sleep 0.02; done' & wait; wait; echo outer; exit 8")
	out := readLines(t, cmd)
	out.want("ready")
	cmd.Process.Signal(syscall.SIGTERM)
	out.want("inner")
	out.want("outer")
	if got := code(t, cmd.Wait()); got != 8 {
		t.Errorf("exit %d, want 8", got)
	}
}

// terminal starts a command line of ours on a fresh terminal, as its session's leader.
func terminal(t *testing.T, args ...string) (*exec.Cmd, *os.File) {
	t.Helper()
	cmd := wardynRec(t, args...)
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return cmd, tty
}

// readAll reads a terminal to its end, which is an error by its nature.
func readAll(tty *os.File) string {
	b, _ := io.ReadAll(tty)
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// until reads up to and including text.
func until(t *testing.T, tty *os.File, text string) {
	t.Helper()
	var got []byte
	for b := make([]byte, 1); !bytes.HasSuffix(got, []byte(text)); {
		if _, err := tty.Read(b); err != nil {
			t.Fatalf("terminal ended after %q, want %q", got, text)
		}
		got = append(got, b[0])
	}
}

func TestF18SizeIsThereBeforeTheProgram(t *testing.T) {
	cmd, tty := terminal(t, "exec", "-cols", "123", "-rows", "45", "e7", "--", "stty", "size")
	if got := readAll(tty); got != "45 123\n" {
		t.Errorf("the program sees %q, want 45 123", got)
	}
	if got := code(t, cmd.Wait()); got != 0 {
		t.Errorf("exit %d", got)
	}
}

func TestTerminalKeysReachTheCommand(t *testing.T) {
	for _, form := range [][]string{{"exec", "e8", "--"}, {"init", "-tty", "--"}} {
		t.Run(form[0]+" ctrl-c", func(t *testing.T) {
			cmd, tty := terminal(t, append(form, "sh", "-c", "echo ready; exec sleep 1000")...)
			until(t, tty, "ready")
			fmt.Fprint(tty, "\x03")
			if got := code(t, cmd.Wait()); got != 130 {
				t.Errorf("exit %d, want 130", got)
			}
		})
		t.Run(form[0]+" ctrl-z freezes nothing", func(t *testing.T) {
			cmd, tty := terminal(t, append(form, "sh", "-c", "echo ready; read a; echo got $a; exit 5")...)
			until(t, tty, "ready")
			fmt.Fprint(tty, "\x1a")
			fmt.Fprint(tty, "line\n")
			until(t, tty, "got line")
			if got := code(t, cmd.Wait()); got != 5 {
				t.Errorf("exit %d, want 5", got)
			}
		})
		t.Run(form[0]+" resize", func(t *testing.T) {
			cmd, tty := terminal(t, append(form, "sh", "-c", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done")...)
			until(t, tty, "ready")
			pty.Setsize(tty, &pty.Winsize{Rows: 33, Cols: 77})
			until(t, tty, "33 77")
			cmd.Wait()
		})
		t.Run(form[0]+" background child holds the terminal", func(t *testing.T) {
			cmd, tty := terminal(t, append(form, "sh", "-c", marked(t, 98675)+" & echo ready; exit 4")...)
			until(t, tty, "ready")
			if got := code(t, cmd.Wait()); got != 4 {
				t.Errorf("exit %d, want 4", got)
			}
		})
	}
}

func TestF17KillByID(t *testing.T) {
	mark := marked(t, 98725)
	start := func(id string) (*exec.Cmd, lines) {
		cmd := wardynRec(t, "exec", "-cols", "80", "-rows", "24", id, "--", "sh", "-c", mark+" & echo ready; "+mark)
		out := readLines(t, cmd)
		out.want("ready")
		return cmd, out
	}
	a, _ := start("kill-a")
	b, _ := start("kill-ab")
	eventually(t, "four sleeps", func() bool { return running(mark) == 4 })
	if got := code(t, wardynRec(t, "kill", "kill-a").Run()); got != 0 {
		t.Fatalf("kill: exit %d", got)
	}
	if err := a.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the killed exec ended with %v", err)
	}
	eventually(t, "its group is gone", func() bool { return running(mark) == 2 })
	if got := code(t, wardynRec(t, "kill", "-s", "term", "kill-ab").Run()); got != 0 {
		t.Errorf("kill -s: exit %d", got)
	}
	if got := code(t, b.Wait()); got != 143 {
		t.Errorf("after kill -s TERM: exit %d, want the command's 143", got)
	}
	for range 2 {
		if got := code(t, wardynRec(t, "kill", "kill-a").Run()); got != 0 {
			t.Errorf("kill of what is gone: exit %d", got)
		}
	}
}

func TestKillRacingTheStartLeavesNothing(t *testing.T) {
	mark := marked(t, 9875)
	for i := range 80 {
		id := fmt.Sprintf("race-%d", i)
		cmd := wardynRec(t, "exec", id, "--", "sleep", strings.TrimPrefix(mark, "sleep "))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 100 * time.Microsecond) // spreads the kill over the start
		// Whatever is there to be found by its command line has to go whole.
		eventually(t, "the wrapper shows its command line", func() bool {
			if err := killExec(id, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return cmd.Process.Signal(syscall.Signal(0)) != nil || zombie(cmd.Process.Pid)
		})
		cmd.Wait()
	}
	eventually(t, "no command outlived its wrapper", func() bool { return running(mark) == 0 })
}

func zombie(pid int) bool {
	p, err := readProcess(pid)
	return err == nil && p.state == 'Z'
}
