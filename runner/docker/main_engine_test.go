package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/keeper"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// waited is Wait's answer as one value.
func (b *box) waited(t *testing.T) string {
	t.Helper()
	code, err := b.Wait(soon(t), b.ref)
	if err != nil {
		return err.Error()
	}
	return strconv.Itoa(code)
}

// TestK8EveryLineArrives: 200,000 numbered lines on both streams, through a
// sink that was there before the process.
func TestK8EveryLineArrives(t *testing.T) {
	const lines = 200_000
	eachRuntime(t, func(t *testing.T, rt string) {
		var stdout, stderr strings.Builder
		ended := make(chan error)
		b := startedBox(t, boxSpec{runtime: rt, output: keeper.Copy(&stdout, &stderr, func(err error) { ended <- err }),
			argv: sh(fmt.Sprintf("seq 1 2 %d & seq 2 2 %d >&2; wait; printf end; exit 9", lines, lines))})
		if got := b.waited(t); got != "9" {
			t.Errorf("Wait: %s", got)
		}
		if err := testenv.Await(t, "the end of its output", ended); err != nil {
			t.Errorf("end of output: %v", err)
		}
		out, errs := stdout.String(), stderr.String()
		if rest, ok := strings.CutSuffix(out, "end"); !ok {
			t.Errorf("stdout ends in %q", out[max(0, len(out)-20):])
		} else {
			checkNumbers(t, "stdout", rest, 1, lines/2)
		}
		checkNumbers(t, "stderr", errs, 2, lines/2)
		if len(out) < 500_000 || len(errs) < 500_000 {
			t.Errorf("%d and %d bytes", len(out), len(errs))
		}
	})
}

// checkNumbers asserts that text is count lines of numbers, from first in steps of two.
func checkNumbers(t *testing.T, stream, text string, first, count int) {
	t.Helper()
	sc := bufio.NewScanner(strings.NewReader(text))
	n := 0
	for ; sc.Scan(); n++ {
		if want := strconv.Itoa(first + 2*n); sc.Text() != want {
			t.Errorf("%s line %d: %q, want %q", stream, n, sc.Text(), want)
			return
		}
	}
	if n != count {
		t.Errorf("%s has %d lines, want %d", stream, n, count)
	}
}

// TestF3InstantProgram: one that ends at once, without a final newline.
func TestF3InstantProgram(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		for _, tty := range []bool{false, true} {
			sink := newCollector()
			b := startedBox(t, boxSpec{runtime: rt, output: sink, tty: tty, argv: sh("printf out; printf err >&2; exit 3")})
			if got := b.waited(t); got != "3" {
				t.Errorf("Wait: %s", got)
			}
			out, errs := sink.streams(t)
			if !tty && (out != "out" || errs != "err") || tty && out != "outerr" {
				t.Errorf("tty %v: %q, %q", tty, out, errs)
			}
			if sink.frames == tty {
				t.Errorf("tty %v: framed %v", tty, sink.frames)
			}
		}
	})
}

// TestExecOfMainProcess: what Exec starts, and what it refuses.
func TestExecOfMainProcess(t *testing.T) {
	b := newBox(t, boxSpec{runtime: "runc", argv: []string{"sleep", "98765"}})
	ctx := t.Context()
	if st, err := b.Status(ctx, b.ref); err != nil || st.State != types.StateStarting {
		t.Errorf("before the start: %+v, %v", st, err)
	}
	if _, err := b.Wait(ctx, b.ref); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("Wait before the start: %v", err)
	}
	if _, err := b.Exit(ctx, b.ref); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("Exit before the start: %v", err)
	}
	if err := b.StopProcess(ctx, b.ref, "", 0); err != nil {
		t.Errorf("StopProcess before the start: %v", err)
	}
	if _, err := b.Exec(ctx, b.ref, []string{"true"}); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("argv before the start: %v", err)
	}
	b.start(t)
	if _, err := b.Exec(ctx, b.ref, nil); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("second start: %v", err)
	}
	if _, err := b.Exec(ctx, b.ref, []string{"true"}); !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("argv with a main process: %v", err)
	}
	if _, err := b.Exit(ctx, b.ref); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("Exit while it runs: %v", err)
	}
	if st, err := b.AgentStatus(ctx, b.ref, ""); err != nil || st.State != types.StateRunning || st.ExitCode != nil {
		t.Errorf("running: %+v, %v", st, err)
	}
	wctx, cancel := context.WithCancel(ctx)
	waiting := make(chan error)
	go func() {
		_, err := b.Wait(wctx, b.ref)
		waiting <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with its context over: %v", err)
	}
	w := &world{Runner: b.Runner, cl: b.cl}
	w.awaitProgram(t, b.ref, "sleep")
	// Another process of this program knows nothing and needs nothing.
	other := &Runner{opts: b.opts, api: b.cl}
	if err := other.StopProcess(ctx, b.ref, "SIGTERM", time.Minute); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if code, err := other.Wait(ctx, b.ref); err != nil || code != 143 {
			t.Errorf("Wait of another: %d, %v", code, err)
		}
	}
	if st, err := other.Status(ctx, b.ref); err != nil || st.State != types.StateFailed || *st.ExitCode != 143 || st.Message != "exit code 143" {
		t.Errorf("exited: %+v, %v", st, err)
	}
	if _, err := b.Exec(ctx, b.ref, nil); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("start of an exited one: %v", err)
	}
}

// TestGoneAndForeign: what is gone is so without an error where the contract
// says so, and what others made is not touched.
func TestGoneAndForeign(t *testing.T) {
	b := newBox(t, boxSpec{runtime: "runc"})
	ctx := t.Context()
	const gone = "wardyn_agent_00000000-0000-4000-8000-000000000000"
	if st, err := b.Status(ctx, gone); err != nil || st.State != types.StateStopped || st.ExitCode != nil || st.Message != "container not found" {
		t.Errorf("Status: %+v, %v", st, err)
	}
	if err := b.StopProcess(ctx, gone, "", time.Minute); err != nil {
		t.Errorf("StopProcess: %v", err)
	}
	_, waitErr := b.Wait(ctx, gone)
	_, usageErr := b.Usage(ctx, gone)
	_, exitErr := b.Exit(ctx, gone)
	_, attachErr := b.AttachOutput(ctx, gone)
	_, logErr := b.ReadLog(ctx, gone, "stdout")
	_, execErr := b.Exec(ctx, gone, nil)
	for name, err := range map[string]error{
		"Wait": waitErr, "Usage": usageErr, "Exit": exitErr, "AttachOutput": attachErr, "ReadLog": logErr, "Exec": execErr,
		"Signal": b.Signal(ctx, gone, "HUP"), "Pause": b.Pause(ctx, gone), "Unpause": b.Unpause(ctx, gone),
		"Start": b.Start(ctx, gone), "Park": b.Park(ctx, gone),
	} {
		if !errors.Is(err, runner.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}

	other := newBox(t, boxSpec{runtime: "runc"})
	_, waitErr = b.Wait(ctx, other.ref)
	_, execErr = b.ExecStream(ctx, other.ref, runner.ExecSpec{Argv: []string{"true"}})
	_, logErr = b.ReadLog(ctx, other.ref, "stdout")
	_, statusErr := b.Status(ctx, other.ref)
	for name, err := range map[string]error{
		"Wait": waitErr, "ExecStream": execErr, "ReadLog": logErr, "Status": statusErr,
		"Signal": b.Signal(ctx, other.ref, "HUP"), "Pause": b.Pause(ctx, other.ref),
		"StopProcess": b.StopProcess(ctx, other.ref, "", 0), "Park": b.Park(ctx, other.ref),
	} {
		if !errors.Is(err, errForeign) {
			t.Errorf("another instance's, %s: %v", name, err)
		}
	}
	if st, err := other.Status(ctx, other.ref); err != nil || st.State != types.StateRunning {
		t.Errorf("another instance's: %+v, %v", st, err)
	}
}

// TestOutputWithoutSink is in the engine's log, per stream, and holds nobody up.
func TestOutputWithoutSink(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := startedBox(t, boxSpec{runtime: rt, argv: sh("seq 1 2 39999; seq 2 2 40000 >&2; printf end")})
		if got := b.waited(t); got != "0" {
			t.Fatalf("Wait: %s", got)
		}
		out, _ := strings.CutSuffix(b.log(t, "stdout"), "end")
		checkNumbers(t, "stdout", out, 1, 20_000)
		checkNumbers(t, "stderr", b.log(t, "stderr"), 2, 20_000)
		if _, err := b.ReadLog(t.Context(), b.ref, "both"); !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("unknown stream: %v", err)
		}
	})
	b := startedBox(t, boxSpec{runtime: "runc", tty: true, argv: sh("echo out; echo err >&2")})
	b.waited(t)
	if out, errs := b.log(t, "stdout"), b.log(t, "stderr"); out != "out\r\nerr\r\n" || errs != "" {
		t.Errorf("terminal: %q, %q", out, errs)
	}
}

func (b *box) log(t *testing.T, stream string) string {
	t.Helper()
	r, err := b.ReadLog(soon(t), b.ref, stream)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("log %s: %v", stream, err)
	}
	return string(out)
}

// TestAttachOutput is what recovery does: attach to what runs already, while
// it prints, on a socket that can be handed on.
func TestAttachOutput(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := startedBox(t, boxSpec{runtime: rt, argv: sh("trap 'exit 0' TERM; i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done")})
		out, err := b.AttachOutput(t.Context(), b.ref)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Conn.Close()
		if _, ok := out.Conn.(*net.UnixConn); !ok || !out.Framed {
			t.Errorf("connection %T, framed %v; want one whose descriptor can be passed on, framed", out.Conn, out.Framed)
		}
		b.awaitLog(t, "\n")
		if err := b.Pause(t.Context(), b.ref); err != nil {
			t.Fatal(err)
		}
		if _, err := b.AttachOutput(t.Context(), b.ref); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("suspended: %v", err)
		}
		if err := b.StopProcess(t.Context(), b.ref, "", time.Minute); err != nil {
			t.Fatal(err)
		}
		live := newCollector()
		live.Follow(t.Context(), b.ref, out)
		stdout, _ := live.streams(t)
		log := b.log(t, "stdout")
		if stdout == "" || !strings.HasSuffix(log, stdout) {
			t.Errorf("what came live, %d bytes, is not the end of the log of %d bytes", len(stdout), len(log))
		}
		if _, err := b.AttachOutput(t.Context(), b.ref); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("exited: %v", err)
		}
	})
}

// TestStopWithAStuckReader: nobody reads the output and the process is blocked
// on it; it can be stopped all the same.
func TestStopWithAStuckReader(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		held := make(chan net.Conn, 1)
		stuck := sinkFunc(func(s runner.OutputStream) error { held <- s.Conn; return nil })
		b := startedBox(t, boxSpec{runtime: rt, output: stuck, argv: []string{"yes"}})
		// Docker 20.10 holds the end back until the output is let go of, which is
		// for those to do who have it.
		conn := <-held
		defer conn.Close()
		defer time.AfterFunc(3*time.Second, func() { conn.Close() }).Stop()
		if err := b.StopProcess(t.Context(), b.ref, "", time.Second); err != nil {
			t.Fatal(err)
		}
		if st, err := b.Status(t.Context(), b.ref); err != nil || st.ExitCode == nil {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// TestSinkThatRefuses: the process is not started.
func TestSinkThatRefuses(t *testing.T) {
	refusal := errors.New("no keeper")
	b := newBox(t, boxSpec{runtime: "runc", argv: []string{"sleep", "98765"},
		output: sinkFunc(func(runner.OutputStream) error { return refusal })})
	if _, err := b.Exec(t.Context(), b.ref, nil); !errors.Is(err, refusal) {
		t.Errorf("Exec: %v", err)
	}
	if st, err := b.Status(t.Context(), b.ref); err != nil || st.State != types.StateStarting {
		t.Errorf("%+v, %v", st, err)
	}
}

type sinkFunc func(runner.OutputStream) error

func (f sinkFunc) Follow(_ context.Context, _ string, s runner.OutputStream) error { return f(s) }
