package docker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

func TestR43StatusOf(t *testing.T) {
	exited := func(change func(*container.State)) container.State {
		s := *exitedState(0)
		change(&s)
		return s
	}
	for _, c := range []struct {
		name    string
		state   container.State
		want    types.RunState
		code    int // -1: none
		message string
	}{
		{"created", container.State{Status: "created"}, types.StateStarting, -1, ""},
		{"failed start", container.State{Status: "created", ExitCode: 127, Error: "no such\nfile"}, types.StateStarting, -1, "no such file"},
		{"running", *runningState(), types.StateRunning, -1, ""},
		{"R44 paused", container.State{Status: "paused", Running: true, Paused: true, StartedAt: startTime}, types.StateRunning, -1, "suspended"},
		{"running after an OOM of a child", container.State{Status: "running", Running: true, OOMKilled: true, StartedAt: startTime}, types.StateRunning, -1, ""},
		{"success", exited(func(*container.State) {}), types.StateStopped, 0, ""},
		{"failure", exited(func(s *container.State) { s.ExitCode = 3 }), types.StateFailed, 3, "exit code 3"},
		{"dead", exited(func(s *container.State) { s.Status, s.ExitCode = "dead", 1 }), types.StateFailed, 1, "exit code 1"},
		{"killed", exited(func(s *container.State) { s.ExitCode = 137 }), types.StateFailed, 137, "exit code 137"},
		{"K12 killed for memory", exited(func(s *container.State) { s.ExitCode, s.OOMKilled = 137, true }), types.StateFailed, 137, "OOM killed"},
		{"K12 child killed, itself well", exited(func(s *container.State) { s.OOMKilled = true }), types.StateStopped, 0, ""},
		{"K12 child killed, own code", exited(func(s *container.State) { s.ExitCode, s.OOMKilled = 9, true }), types.StateFailed, 9, "exit code 9"},
		{"with an error", exited(func(s *container.State) { s.ExitCode, s.Error = 128, "OCI\x1b[31m \xff" }), types.StateFailed, 128, "exit code 128: OCI [31m \uFFFD"},
	} {
		got := statusOf(&c.state)
		code := -1
		if got.ExitCode != nil {
			code = *got.ExitCode
		}
		if got.State != c.want || code != c.code || got.Message != c.message {
			t.Errorf("%s: %v %d %q; want %v %d %q", c.name, got.State, code, got.Message, c.want, c.code, c.message)
		}
	}
}

// TestB5AgentStatusOf: no exit code is never success.
func TestB5AgentStatusOf(t *testing.T) {
	zero, three := 0, 3
	for _, c := range []struct {
		name  string
		state execState
		want  types.RunState
		code  *int
		err   error
	}{
		{"running", execState{Running: true}, types.RunState("RUNNING"), nil, nil},
		{"running, with a code of zero", execState{Running: true, ExitCode: &zero}, types.StateRunning, nil, nil},
		{"never started", execState{}, "", nil, runner.ErrPrecondition},
		{"success", execState{ExitCode: &zero}, types.StateStopped, &zero, nil},
		{"failure", execState{ExitCode: &three}, types.StateStopped, &three, nil},
	} {
		got, err := agentStatusOf(c.state)
		if got.State != c.want || got.ExitCode != c.code || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func TestExitOf(t *testing.T) {
	begin, end := time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC), time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	for _, c := range []struct {
		name   string
		change func(*container.State)
		silent bool
		want   runner.Exit
	}{
		{"success", func(*container.State) {}, false, runner.Exit{}},
		{"code", func(s *container.State) { s.ExitCode = 128 }, false, runner.Exit{Code: 128}},
		{"first signal", func(s *container.State) { s.ExitCode = 129 }, false, runner.Exit{Code: 129, Signal: 1}},
		{"killed", func(s *container.State) { s.ExitCode = 137 }, false, runner.Exit{Code: 137, Signal: 9}},
		{"last signal", func(s *container.State) { s.ExitCode = 159 }, false, runner.Exit{Code: 159, Signal: 31}},
		{"no signal", func(s *container.State) { s.ExitCode = 160 }, false, runner.Exit{Code: 160}},
		{"engine's own", func(s *container.State) { s.ExitCode = 255 }, false, runner.Exit{Code: 255}},
		{"killed for memory", func(s *container.State) { s.ExitCode, s.OOMKilled = 137, true }, false, runner.Exit{Code: 137, Signal: 9, OOMKilled: true}},
		{"child killed for memory", func(s *container.State) { s.ExitCode, s.OOMKilled = 1, true }, false, runner.Exit{Code: 1, ChildOOM: true}},
		{"instant", func(s *container.State) { s.FinishedAt = "2026-01-02T03:04:05.499Z" }, false, runner.Exit{Finished: begin}},
		{"crash", func(s *container.State) { s.ExitCode = 2 }, true, runner.Exit{Code: 2, Err: runner.ErrRuntimeCrashed}},
	} {
		s := exitedState(0)
		c.change(s)
		got := exitOf(s, c.silent)
		if !errors.Is(got.Err, c.want.Err) || (got.Err == nil) != (c.want.Err == nil) {
			t.Errorf("%s: %v", c.name, got.Err)
		}
		got.Err, c.want.Err = nil, nil
		c.want.Started = begin
		if c.want.Finished.IsZero() {
			c.want.Finished = end
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestK1MayBeCrash(t *testing.T) {
	for _, c := range []struct {
		class types.ConfinementClass
		code  int
		oom   bool
		want  bool
	}{
		{types.CC2, 2, false, true},
		{types.CC2, 1, false, false},
		{types.CC2, 0, false, false},
		{types.CC2, 2, true, false},
		{types.CC1, 2, false, false},
		{types.CC3, 2, false, false},
		{"", 2, false, false},
	} {
		s := exitedState(c.code)
		s.OOMKilled = c.oom
		if got := mayBeCrash(s, c.class); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestStatusOfAnEngineThatIsAway is an error, never "stopped".
func TestStatusOfAnEngineThatIsAway(t *testing.T) {
	r := newScripted(t, &scripted{inspect: func() (*container.State, error) { return nil, errEngine }})
	if st, err := r.Status(t.Context(), scriptedRef); !errors.Is(err, errEngine) || st.State != "" {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := r.lostAgent(t.Context(), scriptedRef, "x"); !errors.Is(err, errEngine) {
		t.Errorf("B6: %v", err)
	}
}

func TestIdles(t *testing.T) {
	argv := func(task *runner.TaskProcess) *container.Config {
		words, err := mainArgv(goldenRun, task, imageFacts{Cmd: []string{"sh"}})
		if err != nil {
			t.Fatal(err)
		}
		return &container.Config{Entrypoint: words[:1], Cmd: words[1:]}
	}
	for _, c := range []struct {
		name   string
		config *container.Config
		want   bool
	}{
		{"the reference's idle script", argv(nil), true},
		{"told to idle", argv(&runner.TaskProcess{Idle: true, TTY: true}), true},
		{"a command", argv(&runner.TaskProcess{Argv: []string{"sleep", "1"}}), false},
		{"a command that looks like it", argv(&runner.TaskProcess{Argv: []string{"-idle"}, Entrypoint: []string{"x"}}), false},
		{"the image's command", argv(&runner.TaskProcess{}), false},
		{"nothing", &container.Config{}, false},
	} {
		if got := idles(c.config); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestEngineText(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                      "plain",
		"":                           "",
		" two\r\n lines\t":           "two lines",
		"bell\a \x1b[2Jclear":        "bell [2Jclear",
		"bad \xff\xfe utf-8":         "bad \uFFFD utf-8",
		"right\u202eto left":         "right to left",
		"gr\u00fc\u00dfe \U0001F600": "gr\u00fc\u00dfe \U0001F600",
	} {
		if got := engineText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	long := engineText(strings.Repeat("\u00fc", maxEngineText))
	if len(long) > maxEngineText+10 || !strings.HasSuffix(long, " ...") {
		t.Errorf("%d bytes, ends in %q", len(long), long[len(long)-8:])
	}
	inner := errors.New(strings.Repeat("x", 1<<20))
	if err := refused("start", inner); !errors.Is(err, inner) || len(err.Error()) > maxEngineText+50 {
		t.Errorf("an engine's error of a mebibyte: %d bytes", len(err.Error()))
	}
}
