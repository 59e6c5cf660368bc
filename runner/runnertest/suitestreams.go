package runnertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// open starts a stream, or skips where there is no such power.
func (b *bench) open(t *testing.T, ref string, spec runner.ExecSpec) *runner.ExecSession {
	t.Helper()
	s, err := b.r.ExecStream(b.ctx, ref, spec)
	if errors.Is(err, runner.ErrExecStreamUnsupported) {
		b.skip(t, err)
	}
	if err != nil {
		t.Fatalf("ExecStream: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// drain reads both streams to their ends at the same time.
func drain(t *testing.T, s *runner.ExecSession) (stdout, stderr string) {
	t.Helper()
	var out, errOut []byte
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		if errOut, err = io.ReadAll(s.Stderr); err != nil {
			t.Errorf("stderr: %v", err)
		}
	})
	var err error
	if out, err = io.ReadAll(s.Stdout); err != nil {
		t.Errorf("stdout: %v", err)
	}
	wg.Wait()
	return string(out), string(errOut)
}

func checkExecStream(t *testing.T, b *bench) {
	ref := b.idle(t)

	t.Run("Separate", func(t *testing.T) {
		s := b.open(t, ref, runner.ExecSpec{Argv: []string{"sh", "-c", "echo to-out; echo to-err >&2; exit 7"}})
		if err := s.Resize(120, 40); err != nil {
			t.Errorf("Resize without a terminal: %v, want nil", err)
		}
		out, errOut := drain(t, s)
		if out != "to-out\n" || errOut != "to-err\n" {
			t.Errorf("stdout %q, stderr %q", out, errOut)
		}
		if code, err := s.Wait(); code != 7 || err != nil {
			t.Errorf("Wait: %d, %v; want 7", code, err)
		}
	})
	t.Run("HalfClose", func(t *testing.T) {
		s := b.open(t, ref, runner.ExecSpec{Argv: []string{"cat"}})
		go func() {
			io.WriteString(s.Stdin, "through cat\n")
			s.Stdin.Close()
		}()
		if out, _ := drain(t, s); out != "through cat\n" {
			t.Errorf("stdout %q", out)
		}
		if code, err := s.Wait(); code != 0 || err != nil {
			t.Errorf("Wait: %d, %v; want 0", code, err)
		}
	})
	t.Run("Repeatable", func(t *testing.T) {
		var open []*runner.ExecSession
		for range 3 {
			open = append(open, b.open(t, ref, runner.ExecSpec{Argv: []string{"cat"}}))
		}
		for i, s := range open {
			want := fmt.Sprintf("stream %d\n", i)
			go io.Copy(io.Discard, s.Stderr)
			go io.WriteString(s.Stdin, want)
			if got, err := bufio.NewReader(s.Stdout).ReadString('\n'); got != want || err != nil {
				t.Errorf("stream %d echoes %q, %v", i, got, err)
			}
		}
		open[0].Close()
		if st := b.state(t, ref); st.State != types.StateRunning {
			t.Errorf("the sandbox is %s after a stream was closed", st.State)
		}
	})
	t.Run("NoCommand", func(t *testing.T) {
		if _, err := b.r.ExecStream(b.ctx, ref, runner.ExecSpec{}); !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("no command: %v, want ErrInvalid", err)
		}
	})
}

func checkTerminal(t *testing.T, b *bench) {
	ref := b.idle(t)
	s := b.open(t, ref, runner.ExecSpec{Argv: []string{"sh", "-c", "echo out; echo err >&2"}, TTY: true, Cols: 100, Rows: 30})
	if n, err := s.Stderr.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("stderr under a terminal: %d, %v; want io.EOF at once", n, err)
	}
	out, _ := io.ReadAll(s.Stdout) // a closing terminal may end in EIO
	if got := strings.Fields(string(out)); len(got) != 2 || got[0] != "out" || got[1] != "err" {
		t.Errorf("the terminal shows %q, want both streams", out)
	}
	if code, err := s.Wait(); code != 0 || err != nil {
		t.Errorf("Wait: %d, %v", code, err)
	}
}

// retype is how long somebody at a terminal waits before typing a line again.
const retype = 20 * time.Second

// typeUntil types a line, and again while nothing comes of it, as people do: a
// shell that is just starting may drop what was typed before its prompt.
func (b *bench) typeUntil(t *testing.T, to io.Writer, line string, seen <-chan error) {
	t.Helper()
	for {
		if _, err := io.WriteString(to, line); err != nil {
			t.Errorf("Write: %v", err)
			return
		}
		select {
		case err := <-seen:
			if err != nil {
				t.Error(err)
			}
			return
		case <-time.After(retype):
			t.Logf("nothing came of %q; typing it again", line)
		case <-b.ctx.Done():
			t.Errorf("nothing ever came of %q", line)
			return
		}
	}
}

func checkAttach(t *testing.T, b *bench) {
	ref := b.idle(t)
	s, err := b.r.Attach(b.ctx, ref, runner.AttachOptions{})
	if errors.Is(err, runner.ErrUnsupported) {
		b.skip(t, err)
	}
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	if err := s.Resize(b.ctx, 120, 40); err != nil {
		t.Errorf("Resize: %v", err)
	}
	seen := make(chan error, 1)
	go func() {
		var all strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(all.String(), "\nmarker-7") { // printed, not typed
			n, err := s.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				seen <- fmt.Errorf("read %q, then %w", all.String(), err)
				return
			}
		}
		seen <- nil
	}()
	b.typeUntil(t, s, "echo marker-7\n", seen)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if st := b.state(t, ref); st.State != types.StateRunning {
		t.Errorf("the sandbox is %s after detaching, want RUNNING", st.State)
	}
}
