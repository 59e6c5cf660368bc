package docker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// handles runs until it is told, and says how it was.
const handles = `trap 'echo term; exit 11' TERM; trap 'echo int; exit 12' INT; trap 'echo usr1' USR1; echo up
while :; do sleep 0.05; done`

// upBox is a box whose handlers are in place.
func upBox(t *testing.T, s boxSpec) *box {
	t.Helper()
	b := startedBox(t, s)
	b.awaitLog(t, "up\n")
	return b
}

// awaitLog waits until the log's standard output ends in want.
func (b *box) awaitLog(t *testing.T, want string) {
	t.Helper()
	ctx := soon(t)
	for !strings.HasSuffix(b.log(t, "stdout"), want) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("log is %q; want it to end in %q", b.log(t, "stdout"), want)
		}
	}
}

// TestS42Stop: the signal reaches the task itself, and its own code counts.
func TestS42Stop(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		for _, c := range []struct {
			name, signal string
			timeout      time.Duration
			frozen       bool
			want         string
		}{
			{"the stop signal", "", time.Minute, false, "11"},
			{"a signal by name", "SIGINT", time.Minute, false, "12"},
			{"in another spelling", "int", time.Minute, false, "12"},
			{"frozen", "", time.Minute, true, "11"},
			{"at once", "SIGINT", 0, false, "137"},
			{"at once, frozen", "", 0, true, "137"},
			{"one that it survives", "SIGUSR1", 300 * time.Millisecond, false, "137"},
			{"one that it survives, frozen", "USR1", 300 * time.Millisecond, true, "137"},
			{"SIGKILL", "SIGKILL", time.Minute, false, "137"},
		} {
			t.Run(c.name, func(t *testing.T) {
				// A task that survives the signal has the timeout to say so, which
				// may be too short for it on a busy machine.
				survives := strings.Contains(c.signal, "USR1")
				for timeout := c.timeout; ; timeout *= 2 {
					said := w.stopped(t, rt, c.signal, timeout, c.frozen, c.want)
					if !survives || strings.HasSuffix(said, "usr1\n") {
						return
					}
					if timeout > testenv.Patience/4 {
						t.Fatalf("the signal was not sent before the kill: %q", said)
					}
				}
			})
		}
	})
}

// stopped stops a task, frozen or not, checks how it has ended, and returns what
// it said.
func (w *world) stopped(t *testing.T, rt, signal string, timeout time.Duration, frozen bool, want string) string {
	t.Helper()
	b := upBox(t, boxSpec{world: w, runtime: rt, argv: sh(handles)})
	if frozen {
		if err := b.Pause(t.Context(), b.ref); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second finds it down
		if err := b.StopProcess(t.Context(), b.ref, signal, timeout); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.waited(t); got != want {
		t.Errorf("Wait: %s, want %s", got, want)
	}
	return b.log(t, "stdout")
}

func TestSignalNamesAreChecked(t *testing.T) {
	b := upBox(t, boxSpec{runtime: "runc", argv: sh(handles)})
	for _, name := range []string{"SIGNOPE", "9", "SIGRTMIN", "SIG", "TERM\x00"} {
		for verb, err := range map[string]error{
			"StopProcess": b.StopProcess(t.Context(), b.ref, name, 0), "Signal": b.Signal(t.Context(), b.ref, name),
		} {
			if !errors.Is(err, runner.ErrInvalid) || !strings.Contains(err.Error(), "SIGTERM") {
				t.Errorf("%s %q: %v; want the known names", verb, name, err)
			}
		}
	}
	// What init keeps would be lost without a word.
	for _, name := range []string{"SIGPIPE", "chld", "URG", "SIGTTIN", "SIGTTOU"} {
		if err := b.Signal(t.Context(), b.ref, name); !errors.Is(err, runner.ErrInvalid) || !strings.Contains(err.Error(), "keeps it") {
			t.Errorf("Signal %s: %v", name, err)
		}
	}
	for _, name := range []string{"SIGSTOP", "tstp", "CONT", "PIPE"} {
		if err := b.StopProcess(t.Context(), b.ref, name, 0); !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("StopProcess %s: %v", name, err)
		}
	}
	if st, err := b.Status(t.Context(), b.ref); err != nil || st.State != types.StateRunning {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestK11Freezing: stop and continue mean the whole sandbox, and a suspended
// one is neither signalled nor thawed by a signal.
func TestK11Freezing(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		b := upBox(t, boxSpec{runtime: rt, argv: sh(handles)})
		ctx := t.Context()
		status := func(want string) {
			t.Helper()
			if st, err := b.Status(ctx, b.ref); err != nil || st.State != types.StateRunning || st.Message != want {
				t.Errorf("%+v, %v; want RUNNING %q", st, err, want)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(b.Signal(ctx, b.ref, "SIGSTOP"))
		status("suspended")
		must(b.Signal(ctx, b.ref, "SIGTSTP")) // twice is once
		if err := b.Signal(ctx, b.ref, "SIGUSR1"); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("signal to a suspended sandbox: %v", err)
		}
		if err := b.Start(ctx, b.ref); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("Start of a suspended sandbox: %v", err)
		}
		status("suspended")
		must(b.Signal(ctx, b.ref, "SIGCONT"))
		status("")
		must(b.Signal(ctx, b.ref, "CONT"))
		must(b.Start(ctx, b.ref))
		must(b.Signal(ctx, b.ref, "USR1"))
		b.awaitLog(t, "up\nusr1\n")
		must(b.Signal(ctx, b.ref, "TERM"))
		if got := b.waited(t); got != "11" {
			t.Errorf("Wait: %s", got)
		}
		for verb, err := range map[string]error{
			"Signal": b.Signal(ctx, b.ref, "HUP"), "Pause": b.Pause(ctx, b.ref), "Unpause": b.Unpause(ctx, b.ref),
		} {
			if !errors.Is(err, runner.ErrPrecondition) {
				t.Errorf("%s of an exited sandbox: %v", verb, err)
			}
		}
	})
}

// TestParkAndStart: the sandbox stays, and its second life has a sink as well.
func TestParkAndStart(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		first, second := newCollector(), newCollector()
		b := startedBox(t, boxSpec{runtime: rt, output: first, argv: sh(
			"trap 'echo bye; exit 0' TERM; cd /home/agent; cat mark 2>/dev/null; echo here before >mark; echo up; while :; do sleep 0.05; done")})
		b.awaitLog(t, "up\n")
		if err := b.Park(t.Context(), b.ref); err != nil {
			t.Fatal(err)
		}
		if out, _ := first.streams(t); out != "up\nbye\n" {
			t.Errorf("first life: %q", out)
		}
		if st, err := b.Status(t.Context(), b.ref); err != nil || st.State != types.StateStopped || *st.ExitCode != 0 {
			t.Errorf("parked: %+v, %v", st, err)
		}
		b.SetOutput(b.ref, second)
		if err := b.Start(t.Context(), b.ref); err != nil {
			t.Fatal(err)
		}
		b.awaitLog(t, "up\n")
		if err := b.StopProcess(t.Context(), b.ref, "", time.Minute); err != nil {
			t.Fatal(err)
		}
		if out, _ := second.streams(t); !strings.HasPrefix(out, "here before\n") {
			t.Errorf("second life: %q", out)
		}
	})
}
