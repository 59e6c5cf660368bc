package docker

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// TestR40AgentInIdleSandbox: the reference's way of running an agent, whose
// exit code outlives both the engine's memory and ours.
func TestR40AgentInIdleSandbox(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		sink := newCollector()
		b := newBox(t, boxSpec{runtime: rt})
		run, _ := RunOf(b.ref)
		if _, err := b.opts.Dir.MakeRunDir(run); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Wait(t.Context(), b.ref); !errors.Is(err, runner.ErrPrecondition) {
			t.Errorf("Wait with no agent: %v", err)
		}
		if _, err := b.Exec(t.Context(), b.ref, nil); !errors.Is(err, runner.ErrInvalid) {
			t.Errorf("Exec without a command: %v", err)
		}
		b.SetOutput(b.ref, sink)
		start, release := context.WithCancel(t.Context())
		id, err := b.Exec(start, b.ref, sh("echo out; echo err >&2; while ! test -e /tmp/go; do sleep 0.05; done; exit 42"))
		if err != nil || id == "" {
			t.Fatalf("Exec: %q, %v", id, err)
		}
		release() // the agent is not tied to the request that started it
		if st, err := b.AgentStatus(t.Context(), b.ref, id); err != nil || st.State != types.StateRunning || st.ExitCode != nil {
			t.Errorf("running: %+v, %v", st, err)
		}
		b.run(t, runner.ExecSpec{Argv: []string{"touch", "/tmp/go"}}, "")
		if got := b.waited(t); got != "42" {
			t.Errorf("Wait: %s", got)
		}
		if out, _ := sink.streams(t); out != "out\r\nerr\r\n" || sink.frames {
			t.Errorf("the sink has %q", out)
		}
		for name, r := range map[string]*Runner{
			"the same process": b.Runner, "another": {opts: b.opts, api: b.cl},
		} {
			if st, err := r.AgentStatus(t.Context(), b.ref, id); err != nil || st.State != types.StateStopped || st.ExitCode == nil || *st.ExitCode != 42 {
				t.Errorf("%s: %+v, %v", name, st, err)
			}
		}

		path, _ := b.exitPath(b.ref, id)
		if kept, err := os.ReadFile(path); err != nil || string(kept) != "42\n" {
			t.Errorf("S31, kept: %q, %v", kept, err)
		}

		// An id that the engine does not know, like one it has forgotten.
		lost := strings.Repeat("0", 64)
		if st, err := b.AgentStatus(t.Context(), b.ref, lost); !errors.Is(err, errLost) {
			t.Errorf("B6, while the sandbox lives: %+v, %v", st, err)
		}
		path, _ = b.exitPath(b.ref, lost)
		if err := os.WriteFile(path, []byte("7\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if st, err := b.AgentStatus(t.Context(), b.ref, lost); err != nil || *st.ExitCode != 7 {
			t.Errorf("recorded and forgotten by the engine: %+v, %v", st, err)
		}
		if err := b.StopProcess(t.Context(), b.ref, "", 0); err != nil {
			t.Fatal(err)
		}
		if st, err := b.AgentStatus(t.Context(), b.ref, strings.Repeat("1", 64)); err != nil || st.State != types.StateStopped || st.ExitCode != nil {
			t.Errorf("B6, when the sandbox is down too: %+v, %v", st, err)
		}
	})
}

// TestAgentWithoutSinkIsDrained: a terminal nobody reads must not stall it.
func TestAgentWithoutSinkIsDrained(t *testing.T) {
	b := newBox(t, boxSpec{runtime: "runc"})
	if _, err := b.Exec(t.Context(), b.ref, sh("seq 1 200000; exit 6")); err != nil {
		t.Fatal(err)
	}
	if got := b.waited(t); got != "6" {
		t.Errorf("Wait: %s", got)
	}
}
