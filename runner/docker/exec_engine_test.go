package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// TestExecConformance is what schedulers' own harnesses check of an exec.
func TestExecConformance(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		for _, c := range []struct {
			name  string
			spec  runner.ExecSpec
			stdin string
			want  result
		}{
			{"streams apart, exit code", runner.ExecSpec{Argv: sh("echo out; echo err >&2; exit 43")}, "",
				result{"out\n", "err\n", 43, nil}},
			{"lines with pauses", runner.ExecSpec{Argv: sh("for i in 1 2 3; do echo $i; sleep 0.2; done")}, "",
				result{"1\n2\n3\n", "", 0, nil}},
			{"no terminal", runner.ExecSpec{Argv: sh("test -t 0 || test -t 1 || test -t 2 || echo none")}, "",
				result{"none\n", "", 0, nil}},
			{"stdin and its end", runner.ExecSpec{Argv: []string{"cat"}}, "a\nb",
				result{"a\nb", "", 0, nil}},
			{"half-close keeps output flowing", runner.ExecSpec{Argv: sh("cat; echo after; echo err >&2; exit 7")}, "in\n",
				result{"in\nafter\n", "err\n", 7, nil}},
			{"ended by a signal", runner.ExecSpec{Argv: sh("kill -9 $$")}, "",
				result{"", "", 137, nil}},
			{"argv as it is", runner.ExecSpec{Argv: []string{"echo", "a  b", "$HOME", "--", "-x", ""}}, "",
				result{"a  b $HOME -- -x \n", "", 0, nil}},
			{"environment", runner.ExecSpec{Argv: sh("echo $A-$B"), Env: []string{"A=1", "B=x=y"}}, "",
				result{"1-x=y\n", "", 0, nil}},
			{"no such program", runner.ExecSpec{Argv: []string{"nosuch"}}, "",
				result{"", "wardyn-rec: exec nosuch: not found\n", 127, nil}},
			{"not a program", runner.ExecSpec{Argv: []string{"/etc/passwd"}}, "",
				result{"", "wardyn-rec: exec /etc/passwd: permission denied (is it executable for this user?)\n", 126, nil}},
			{"background child is not waited for", runner.ExecSpec{Argv: sh("(sleep 98765; echo late) & echo now; exit 4")}, "",
				result{"now\n", "", 4, nil}},
			{"terminal: line ends, merged streams", runner.ExecSpec{Argv: sh("echo out; echo err >&2; exit 3"), TTY: true}, "",
				result{"out\r\nerr\r\n", "", 3, nil}},
			{"terminal: its type and first size", runner.ExecSpec{Argv: sh("echo $TERM; stty size"), TTY: true, Cols: 101, Rows: 31}, "",
				result{"xterm-256color\r\n31 101\r\n", "", 0, nil}},
			{"terminal: usual size", runner.ExecSpec{Argv: sh("stty size"), TTY: true}, "",
				result{"24 80\r\n", "", 0, nil}},
			{"terminal: the caller's type", runner.ExecSpec{Argv: sh("echo $TERM"), TTY: true, Env: []string{"TERM=vt100"}}, "",
				result{"vt100\r\n", "", 0, nil}},
			{"terminal: background child is not waited for", runner.ExecSpec{Argv: sh("(trap '' HUP; sleep 98765; echo late) & echo now; exit 4"), TTY: true}, "",
				result{"now\r\n", "", 4, nil}},
		} {
			t.Run(c.name, func(t *testing.T) {
				var stdin io.Reader
				if !c.spec.TTY {
					stdin = strings.NewReader(c.stdin)
				}
				s, err := b.ExecStream(soon(t), b.ref, c.spec)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if got := drain(s, stdin); got != c.want {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
			})
		}
		for _, c := range []struct {
			script, typed string
			output        []string // a terminal may echo a line after the program has answered the one before
		}{
			{"read x; echo got $x", "", []string{"got\r\n"}},
			{"read x; echo got $x", "word", []string{"wordgot word\r\n"}},
			{"read x; echo got $x; cat", "one\ntwo", []string{"one\r\ntwogot one\r\ntwo", "one\r\ngot one\r\ntwotwo"}},
			{"read x; echo got $x; cat", "one\n", []string{"one\r\ngot one\r\n"}},
		} {
			t.Run(fmt.Sprintf("terminal: end of input after %q", c.typed), func(t *testing.T) {
				got := b.run(t, runner.ExecSpec{Argv: sh(c.script + "; exit 6"), TTY: true}, c.typed)
				if !slices.Contains(c.output, got.stdout) || got.code != 6 || got.err != nil {
					t.Errorf("got %+v, want %q", got, c.output)
				}
			})
		}
	})
}

// TestExecTerminalResize: the second of two sizes holds, and what is typed is echoed.
func TestExecTerminalResize(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		s, err := b.ExecStream(soon(t), b.ref, runner.ExecSpec{Argv: sh("echo ready; read x; stty size"), TTY: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if n, err := s.Stderr.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("stderr under a terminal: %d, %v; want io.EOF at once", n, err)
		}
		if got := readUntil(t, s.Stdout, "ready\r\n"); got != "ready\r\n" {
			t.Fatalf("got %q", got)
		}
		for _, size := range [][2]uint16{{90, 33}, {100, 100}, {0, 7}, {7, 0}} {
			if err := s.Resize(size[0], size[1]); err != nil {
				t.Errorf("Resize%v: %v", size, err)
			}
		}
		if _, err := io.WriteString(s.Stdin, "typed\n"); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(s.Stdout)
		if code, err := s.Wait(); code != 0 || err != nil || string(rest) != "typed\r\n100 100\r\n" {
			t.Errorf("%q, %d, %v", rest, code, err)
		}
		if err := s.Resize(10, 10); err != nil {
			t.Errorf("Resize after the end: %v", err)
		}
	})
}

func TestExecWithoutTerminalResizeIsNil(t *testing.T) {
	b := newBox(t, boxSpec{runtime: "runc"})
	s, err := b.ExecStream(soon(t), b.ref, runner.ExecSpec{Argv: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Resize(10, 10); err != nil {
		t.Error(err)
	}
}

// TestB15LargeBothWays: a mebibyte in, the same out, with the input's end as
// the only sign of it.
func TestB15LargeBothWays(t *testing.T) {
	raw := make([]byte, 768<<10)
	rand.Read(raw)
	text := base64.StdEncoding.EncodeToString(raw)
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		got := b.run(t, runner.ExecSpec{Argv: sh("tee /dev/stderr")}, text)
		if got.stdout != text || got.stderr != text || got.code != 0 || got.err != nil {
			t.Errorf("stdout %d bytes, stderr %d bytes, want %d; code %d, %v",
				len(got.stdout), len(got.stderr), len(text), got.code, got.err)
		}
	})
}

// TestR51CloseEndsTheProcess: also the program's own children, also when its
// context ends instead.
func TestR51CloseEndsTheProcess(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		for _, tty := range []bool{false, true} {
			for _, how := range []string{"close", "context", "close at once"} {
				t.Run(fmt.Sprintf("%s tty=%v", how, tty), func(t *testing.T) {
					ctx, cancel := context.WithCancel(soon(t))
					defer cancel()
					s, err := b.ExecStream(ctx, b.ref, runner.ExecSpec{Argv: sh("trap '' HUP TERM; sleep 98765 & echo up; sleep 98765"), TTY: tty})
					if err != nil {
						t.Fatal(err)
					}
					if how != "close at once" {
						readUntil(t, s.Stdout, "up")
					}
					if how == "context" {
						cancel()
					}
					if err := s.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
					if _, err := s.Wait(); !errors.Is(err, errClosed) {
						t.Errorf("Wait after Close: %v", err)
					}
					if err := s.Close(); err != nil {
						t.Errorf("second Close: %v", err)
					}
					// Killed is not yet dead: a process has to be run to end.
					testenv.Eventually(t, "its processes are gone", func() bool {
						return b.run(t, runner.ExecSpec{Argv: sh("ps -o args | grep -c '[s]leep 98765'")}, "").stdout == "0\n"
					})
				})
			}
		}
		if st, err := b.Status(t.Context(), b.ref); err != nil || st.State != "RUNNING" {
			t.Errorf("the sandbox: %+v, %v", st, err)
		}
	})
}

// TestR52Repeatable: many streams on one sandbox, one after the other and side
// by side, one of them with a client that says nothing.
func TestR52Repeatable(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		silent, err := b.ExecStream(soon(t), b.ref, runner.ExecSpec{Argv: sh("cat; exit 5")})
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				got := b.run(t, runner.ExecSpec{Argv: sh(fmt.Sprintf("cat; exit %d", i))}, strings.Repeat("x", i))
				if got != (result{strings.Repeat("x", i), "", i, nil}) {
					t.Errorf("%d: %+v", i, got)
				}
			})
		}
		wg.Wait()
		if got := drain(silent, strings.NewReader("still here")); got != (result{"still here", "", 5, nil}) {
			t.Errorf("the silent one: %+v", got)
		}
	})
}

// TestC13LoopbackRelay: a listener inside is reached through a second stream
// whose input stays open.
func TestC13LoopbackRelay(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		server, err := b.ExecStream(soon(t), b.ref, runner.ExecSpec{Argv: sh("exec nc -l -p 39099 -e cat 2>&1")})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		relay, err := b.ExecStream(soon(t), b.ref, runner.ExecSpec{Argv: sh("until nc 127.0.0.1 39099; do sleep 0.1; done 2>/dev/null")})
		if err != nil {
			t.Fatal(err)
		}
		defer relay.Close()
		go io.Copy(io.Discard, relay.Stderr)
		for _, word := range []string{"one", "two"} {
			if _, err := io.WriteString(relay.Stdin, word+"\n"); err != nil {
				t.Fatal(err)
			}
			if got := readUntil(t, relay.Stdout, "\n"); got != word+"\n" {
				t.Errorf("got %q", got)
			}
		}
	})
}

// TestF20SuspendedTakesNoExec, and says why; nor do the others that cannot.
func TestF20SuspendedTakesNoExec(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		spec := runner.ExecSpec{Argv: []string{"true"}}
		if err := b.Pause(t.Context(), b.ref); err != nil {
			t.Fatal(err)
		}
		_, err := b.ExecStream(soon(t), b.ref, spec)
		if !errors.Is(err, runner.ErrPrecondition) || !strings.Contains(err.Error(), "suspended; resume it first") {
			t.Errorf("suspended: %v", err)
		}
		if _, err := b.Attach(soon(t), b.ref, runner.AttachOptions{}); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("suspended, Attach: %v", err)
		}
		if err := b.StopProcess(t.Context(), b.ref, "SIGKILL", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ExecStream(soon(t), b.ref, spec); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("stopped: %v", err)
		}
	})
	b := newBox(t, boxSpec{runtime: "runc"})
	if _, err := b.ExecStream(soon(t), "wardyn_agent_none", runner.ExecSpec{Argv: []string{"true"}}); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
	for _, argv := range [][]string{nil, {}, {""}} {
		if _, err := b.ExecStream(soon(t), b.ref, runner.ExecSpec{Argv: argv}); !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("argv %q: %v", argv, err)
		}
	}
}

// TestCloseWhileSuspended: the process cannot be killed then, but does not
// live on after the thaw.
func TestCloseWhileSuspended(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		s, err := b.ExecStream(soon(t), b.ref, runner.ExecSpec{Argv: sh("echo up; exec sleep 98765")})
		if err != nil {
			t.Fatal(err)
		}
		readUntil(t, s.Stdout, "up\n")
		if err := b.Pause(t.Context(), b.ref); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := b.Unpause(t.Context(), b.ref); err != nil {
			t.Fatal(err)
		}
		got := b.run(t, runner.ExecSpec{Argv: sh("while ps -o args | grep -q '[s]leep 98765'; do sleep 0.1; done; echo gone")}, "")
		if got.stdout != "gone\n" {
			t.Errorf("%+v", got)
		}
	})
}

// TestF19ExecThatTheRuntimeRefuses: the reason is an error, not output. Only
// here is an exec not carried by the recorder: the box has none.
func TestF19ExecThatTheRuntimeRefuses(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt, bare: true})
		for _, tty := range []bool{false, true} {
			s, err := b.ExecStream(soon(t), b.ref, runner.ExecSpec{Argv: []string{"true"}, TTY: tty})
			if err != nil {
				t.Fatal(err)
			}
			got := drain(s, nil)
			if got.err == nil || !strings.Contains(got.err.Error(), refusalMark) || got.stdout != "" {
				t.Errorf("tty %v: %+v", tty, got)
			}
			s.Close()
		}
	})
}

func TestC11Attach(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := newBox(t, boxSpec{runtime: rt})
		s, err := b.Attach(soon(t), b.ref, runner.AttachOptions{Cols: 90, Rows: 20})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(s, "echo mark''er; stty size; echo $LANG $LC_ALL\n"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, s, "marker\r\n")
		readUntil(t, s, "20 90\r\n")
		readUntil(t, s, "C.UTF-8 C.UTF-8\r\n")
		if err := s.Resize(t.Context(), 120, 40); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(s, "stty size\n"); err != nil {
			t.Fatal(err)
		}
		readUntil(t, s, "40 120\r\n")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("Read after Close: %d, %v", n, err)
		}
		if st, err := b.Status(t.Context(), b.ref); err != nil || st.State != "RUNNING" {
			t.Errorf("%+v, %v", st, err)
		}

		// And the other end: the shell that exits.
		if s, err = b.Attach(soon(t), b.ref, runner.AttachOptions{}); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		io.WriteString(s, "exit\n")
		if _, err := io.ReadAll(s); err != nil {
			t.Errorf("at the shell's exit: %v; want io.EOF", err)
		}
	})
}

// readUntil reads until the text read ends in want, and returns it. The test's
// own deadline is the only one.
func readUntil(t *testing.T, r io.Reader, want string) string {
	t.Helper()
	var got bytes.Buffer
	for b := make([]byte, 1); !strings.HasSuffix(got.String(), want); {
		if _, err := r.Read(b); err != nil {
			t.Fatalf("got %q and then %v; want %q", got.String(), err, want)
		}
		got.Write(b)
	}
	return got.String()
}
