package runnertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

func TestFakeKeepsTheContract(t *testing.T) {
	Run(t, Suite{New: func(*testing.T) runner.Runner { return New(Options{}) }, Image: "test", Timeout: testenv.Patience})
}

// collect is a sink that keeps every stream handed to it.
type collect struct {
	streams chan runner.OutputStream
	err     error
}

func (c *collect) Follow(_ context.Context, _ string, s runner.OutputStream) error {
	if c.err != nil {
		s.Conn.Close()
		return c.err
	}
	c.streams <- s
	return nil
}

// frames reads a framed connection to its end.
func frames(t *testing.T, c net.Conn) (stdout, stderr string) {
	t.Helper()
	defer c.Close()
	got := map[byte]*bytes.Buffer{1: {}, 2: {}}
	for {
		var head [8]byte
		if _, err := io.ReadFull(c, head[:]); err == io.EOF {
			return got[1].String(), got[2].String()
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(got[head[0]], c, int64(binary.BigEndian.Uint32(head[4:]))); err != nil {
			t.Fatal(err)
		}
	}
}

func start(t *testing.T, f *Fake, task *runner.TaskProcess) string {
	t.Helper()
	sb, err := f.CreateSandbox(t.Context(), runner.SandboxSpec{RunID: uuid.New(), Image: "i", Task: task})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Exec(t.Context(), sb.Ref, nil); err != nil {
		t.Fatal(err)
	}
	return sb.Ref
}

func TestOutputReachesTheSinkBeforeTheExit(t *testing.T) {
	f := New(Options{})
	sink := &collect{streams: make(chan runner.OutputStream, 1)}
	ref := start(t, f, &runner.TaskProcess{Argv: []string{"sh", "-c", "echo one; echo two >&2; exit 3"}, Output: sink})
	s := <-sink.streams
	if !s.Framed {
		t.Error("a stream without a terminal is framed")
	}
	if out, errOut := frames(t, s.Conn); out != "one\n" || errOut != "two\n" {
		t.Errorf("stdout %q, stderr %q", out, errOut)
	}
	if code, err := f.Wait(t.Context(), ref); code != 3 || err != nil {
		t.Errorf("Wait: %d, %v", code, err)
	}
	for stream, want := range map[string]string{"stdout": "one\n", "stderr": "two\n"} {
		r, err := f.ReadLog(t.Context(), ref, stream)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(r); string(b) != want {
			t.Errorf("log of %s: %q, want %q", stream, b, want)
		}
	}
	if _, err := f.ReadLog(t.Context(), ref, "both"); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("log of no stream: %v", err)
	}
}

func TestTerminalOutputIsOneUnframedStream(t *testing.T) {
	f := New(Options{})
	sink := &collect{streams: make(chan runner.OutputStream, 1)}
	start(t, f, &runner.TaskProcess{Argv: []string{"sh", "-c", "echo a; echo b >&2"}, TTY: true, Output: sink})
	s := <-sink.streams
	if b, err := io.ReadAll(s.Conn); s.Framed || string(b) != "a\nb\n" || err != nil {
		t.Errorf("framed %v, %q, %v", s.Framed, b, err)
	}
}

func TestSinkThatFailsStartsNothing(t *testing.T) {
	f := New(Options{})
	sb, err := f.CreateSandbox(t.Context(), runner.SandboxSpec{RunID: uuid.New(), Image: "i",
		Task: &runner.TaskProcess{Output: &collect{err: errors.New("no keeper")}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Exec(t.Context(), sb.Ref, nil); err == nil || !strings.Contains(err.Error(), "no keeper") {
		t.Errorf("Exec: %v, want the sink's error", err)
	}
	if st, _ := f.Status(t.Context(), sb.Ref); st.State != types.StateStarting {
		t.Errorf("state %s, want STARTING", st.State)
	}
}

// A reader that stands still holds the process up; a kill ends both.
func TestUnreadOutputBlocksAndKillStillWorks(t *testing.T) {
	wrote := make(chan error, 1)
	f := New(Options{Main: func(_ context.Context, p *Process) int {
		var err error
		for err == nil {
			_, err = p.Stdout.Write(make([]byte, 1<<20))
		}
		wrote <- err
		return 0
	}})
	sink := &collect{streams: make(chan runner.OutputStream, 1)}
	ref := start(t, f, &runner.TaskProcess{Output: sink})
	s := <-sink.streams
	defer s.Conn.Close()
	if err := f.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the killed process's write: %v", err)
	}
}

func TestAttachOutputCarriesWhatFollows(t *testing.T) {
	f := New(Options{})
	ref := start(t, f, &runner.TaskProcess{})
	if err := f.Print(ref, "stdout", "before\n"); err != nil {
		t.Fatal(err)
	}
	s, err := f.AttachOutput(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Print(ref, "stderr", "after\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Finish(ref, runner.Exit{Code: 5}); err != nil {
		t.Fatal(err)
	}
	if out, errOut := frames(t, s.Conn); out != "" || errOut != "after\n" {
		t.Errorf("stdout %q, stderr %q", out, errOut)
	}
	if _, err := f.AttachOutput(t.Context(), ref); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("attach to what has ended: %v", err)
	}
}

func TestSignals(t *testing.T) {
	got := make(chan string, 1)
	f := New(Options{Main: func(ctx context.Context, p *Process) int {
		trap := p.Trap("SIGHUP")
		got <- "ready"
		select {
		case s := <-trap:
			got <- s
		case <-ctx.Done():
		}
		<-ctx.Done()
		return 0
	}})
	ref := start(t, f, &runner.TaskProcess{})
	<-got
	for _, bad := range []string{"SIGNOTHING", "", "9"} {
		if err := f.Signal(t.Context(), ref, bad); !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("signal %q: %v, want ErrInvalid", bad, err)
		}
	}
	if err := f.Signal(t.Context(), ref, "hup"); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "SIGHUP" {
		t.Errorf("trapped %q", s)
	}
	if err := f.Signal(t.Context(), ref, "SIGWINCH"); err != nil { // ignored by default
		t.Fatal(err)
	}
	if st, _ := f.Status(t.Context(), ref); st.State != types.StateRunning {
		t.Errorf("state %s, want RUNNING", st.State)
	}
	if err := f.Signal(t.Context(), ref, "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	if code, _ := f.Wait(t.Context(), ref); code != 138 {
		t.Errorf("exit code %d, want 128+10", code)
	}
	if e, err := f.Exit(t.Context(), ref); err != nil || e.Signal != 10 || e.Started.IsZero() || e.Finished.Before(e.Started) {
		t.Errorf("exit %+v, %v", e, err)
	}
}

func TestK11FrozenSandbox(t *testing.T) {
	synctest.Test(t, frozenSandbox)
}

func frozenSandbox(t *testing.T) {
	f := New(Options{})
	ref := start(t, f, &runner.TaskProcess{})
	if err := f.Signal(t.Context(), ref, "SIGSTOP"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ExecStream(t.Context(), ref, runner.ExecSpec{Argv: []string{"true"}}); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("exec in a frozen sandbox: %v", err)
	}
	if err := f.Signal(t.Context(), ref, "SIGTERM"); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("signal to a frozen sandbox: %v", err)
	}
	printed := make(chan error, 1)
	go func() { printed <- f.Print(ref, "stdout", "x") }()
	synctest.Wait() // every goroutine stands still
	select {
	case err := <-printed:
		t.Errorf("a frozen process printed: %v", err)
	default:
	}
	if err := f.Signal(t.Context(), ref, "SIGCONT"); err != nil {
		t.Fatal(err)
	}
	if err := <-printed; err != nil {
		t.Errorf("print after the thaw: %v", err)
	}
	if err := f.Pause(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if err := f.StopProcess(t.Context(), ref, "", time.Minute); err != nil { // thaws by itself
		t.Fatal(err)
	}
	if code, _ := f.Wait(t.Context(), ref); code != 143 {
		t.Errorf("exit code %d, want 128+15", code)
	}
}

func TestStopKillsWhatIgnoresTheSignal(t *testing.T) {
	ready := make(chan bool)
	f := New(Options{Main: func(ctx context.Context, p *Process) int {
		p.Trap("SIGINT")
		close(ready)
		<-ctx.Done()
		return 0
	}})
	ref := start(t, f, &runner.TaskProcess{StopSignal: "SIGINT"})
	<-ready
	if err := f.StopProcess(t.Context(), ref, "", 0); err != nil {
		t.Fatal(err)
	}
	if code, _ := f.Wait(t.Context(), ref); code != 137 {
		t.Errorf("exit code %d, want 137", code)
	}
	if err := f.StopProcess(t.Context(), ref, "", 0); err != nil {
		t.Errorf("stop of what is down: %v", err)
	}
}

func TestFinishOnDemand(t *testing.T) {
	f := New(Options{})
	for name, c := range map[string]struct {
		exit  runner.Exit
		state types.RunState
		code  int
	}{
		"ok":    {runner.Exit{}, types.StateStopped, 0},
		"fails": {runner.Exit{Code: 9}, types.StateFailed, 9},
		"oom":   {runner.Exit{Code: 137, OOMKilled: true}, types.StateFailed, 137},
		"crash": {runner.Exit{Code: 2, Err: runner.ErrRuntimeCrashed}, types.StateFailed, -1},
	} {
		ref := start(t, f, &runner.TaskProcess{})
		if err := f.Finish(ref, c.exit); err != nil {
			t.Fatal(err)
		}
		st, err := f.Status(t.Context(), ref)
		if err != nil || st.State != c.state {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
		if c.code < 0 != (st.ExitCode == nil) || st.ExitCode != nil && *st.ExitCode != c.code {
			t.Errorf("%s: exit code %v, want %d", name, st.ExitCode, c.code)
		}
		if _, err := f.Wait(t.Context(), ref); !errors.Is(err, c.exit.Err) {
			t.Errorf("%s: Wait: %v, want %v", name, err, c.exit.Err)
		}
	}
}

func TestFaultStopsTheVerb(t *testing.T) {
	f := New(Options{})
	f.SetFault(func(_ context.Context, op, ref string) error {
		if op == "CreateSandbox" {
			return runner.ErrUnavailable
		}
		return nil
	})
	if _, err := f.CreateSandbox(t.Context(), runner.SandboxSpec{RunID: uuid.New(), Image: "i"}); !errors.Is(err, runner.ErrUnavailable) {
		t.Errorf("CreateSandbox: %v", err)
	}
	if left := f.Left(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// A hanging engine returns when the caller's time is over.
	f.SetFault(func(ctx context.Context, _, _ string) error { <-ctx.Done(); return ctx.Err() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Status(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("Status: %v, want an error, never gone", err)
	}
	if !slices.Contains(f.Calls(), Call{"Status", "x"}) {
		t.Errorf("calls %v do not name Status", f.Calls())
	}
}

func TestParkAndStart(t *testing.T) {
	f := New(Options{})
	sink := &collect{streams: make(chan runner.OutputStream, 2)}
	ref := start(t, f, &runner.TaskProcess{Output: sink})
	(<-sink.streams).Conn.Close()
	if err := f.Pause(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if err := f.Park(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if l, _ := f.ListSandboxes(t.Context()); len(l) != 1 || l[0].Running || l[0].Suspended {
		t.Errorf("parked: %+v", l)
	}
	for range 2 { // on a running one Start is nil
		if err := f.Start(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	if l, _ := f.ListSandboxes(t.Context()); len(l) != 1 || !l[0].Running {
		t.Errorf("started again: %+v", l)
	}
	if err := f.Print(ref, "stdout", "again"); err != nil {
		t.Fatal(err)
	}
	if err := f.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if out, _ := frames(t, (<-sink.streams).Conn); out != "again" {
		t.Errorf("output after the restart: %q", out)
	}
}

func TestVolumes(t *testing.T) {
	f := New(Options{})
	mine := map[string]string{"wardyn.namespace": "a"}
	for range 2 {
		if err := f.CreateVolume(t.Context(), "v", mine); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.CreateVolume(t.Context(), "v", map[string]string{"wardyn.namespace": "b"}); !errors.Is(err, runner.ErrExists) {
		t.Errorf("K26: another namespace's volume: %v", err)
	}
	ref := start(t, f, &runner.TaskProcess{Mounts: []runner.TaskMount{{Volume: "v", Target: "/workspace"}}})
	if err := f.RemoveVolume(t.Context(), "v"); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("D52: removal of a volume in use: %v", err)
	}
	f.Vanish(ref)
	for range 2 {
		if err := f.RemoveVolume(t.Context(), "v"); err != nil {
			t.Error(err)
		}
	}
}

func TestExecEndsWithTheMainProcess(t *testing.T) {
	f := New(Options{})
	ref := start(t, f, &runner.TaskProcess{})
	s, err := f.ExecStream(t.Context(), ref, runner.ExecSpec{Argv: []string{"sleep", "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Finish(ref, runner.Exit{}); err != nil {
		t.Fatal(err)
	}
	if code, err := s.Wait(); code != 137 || err != nil {
		t.Errorf("Wait: %d, %v; want 137", code, err)
	}
	if _, err := f.ExecStream(t.Context(), ref, runner.ExecSpec{Argv: []string{"true"}}); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("exec in what has ended: %v", err)
	}
}

func TestExecOfWhatTheImageLacks(t *testing.T) {
	f := New(Options{})
	ref := start(t, f, &runner.TaskProcess{})
	if _, err := f.ExecStream(t.Context(), ref, runner.ExecSpec{Argv: []string{"absent"}}); !errors.Is(err, runner.ErrNotFound) {
		t.Errorf("K10: %v, want ErrNotFound, never an exit code of 0", err)
	}
}

func TestExecEnvironmentAndSizes(t *testing.T) {
	seen := make(chan *Process, 1)
	f := New(Options{Programs: map[string]Program{"env": func(_ context.Context, p *Process) int {
		seen <- p
		io.Copy(io.Discard, p.Stdin)
		return 0
	}}})
	sb, err := f.CreateSandbox(t.Context(), runner.SandboxSpec{RunID: uuid.New(), Image: "i", Env: map[string]string{"A": "1", "B": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.ExecStream(t.Context(), sb.Ref, runner.ExecSpec{Argv: []string{"env"}, Env: []string{"B=3"}, TTY: true, Cols: 100, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Resize(120, 40); err != nil {
		t.Fatal(err)
	}
	p := <-seen
	if !slices.Equal(p.Env, []string{"A=1", "B=3"}) || !slices.Equal(p.Sizes(), []string{"100x30", "120x40"}) || !p.TTY {
		t.Errorf("env %v, sizes %v, tty %v", p.Env, p.Sizes(), p.TTY)
	}
	s.Stdin.Close()
	if code, err := s.Wait(); code != 0 || err != nil {
		t.Errorf("Wait: %d, %v", code, err)
	}
}

func TestExecEndsWithItsContext(t *testing.T) {
	f := New(Options{})
	ref := start(t, f, &runner.TaskProcess{})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := f.ExecStream(ctx, ref, runner.ExecSpec{Argv: []string{"sleep", "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v, want the context's error", err)
	}
}
