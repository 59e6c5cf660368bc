package plugin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
)

// idling is a bench with one idle task.
func idling(t *testing.T, o benchOptions) (*bench, host.TaskConfig) {
	t.Helper()
	b := newBench(t, o)
	tc, _ := b.start("web", args("idle"))
	t.Cleanup(func() { b.host.DestroyTask(context.WithoutCancel(t.Context()), tc.ID, true) })
	return b, tc
}

func TestExecTask(t *testing.T) {
	b, tc := idling(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{
		"big": func(_ context.Context, p *runnertest.Process) int {
			p.Stdout.Write(bytes.Repeat([]byte("x"), 100<<10))
			fmt.Fprint(p.Stdout, "end")
			return 0
		},
	}}})
	r, err := b.host.ExecTask(b.ctx(), tc.ID, []string{"sh", "-c", "echo a; echo b >&2; exit 43"}, time.Minute)
	if err != nil || r.Exit.ExitCode != 43 || !strings.Contains(string(r.Stdout), "a\n") || !strings.Contains(string(r.Stdout), "b\n") {
		t.Errorf("%+v, %v: %s", r.Exit, err, r.Stdout)
	}
	r, err = b.host.ExecTask(b.ctx(), tc.ID, []string{"big"}, 0)
	if err != nil || len(r.Stdout) != execOutput || !bytes.HasSuffix(r.Stdout, []byte("end")) {
		t.Errorf("%d bytes, %v", len(r.Stdout), err)
	}
	// A command that reads its input does not wait for one.
	if r, err = b.host.ExecTask(b.ctx(), tc.ID, []string{"cat"}, time.Minute); err != nil || r.Exit.ExitCode != 0 {
		t.Errorf("cat: %+v, %v", r, err)
	}
	if _, err = b.host.ExecTask(b.ctx(), tc.ID, []string{"missing"}, time.Minute); err == nil {
		t.Error("a missing command ran")
	}
	if _, err = b.host.ExecTask(b.ctx(), "nobody", []string{"true"}, time.Minute); err == nil {
		t.Error("a command ran in nobody")
	}
	// K34: control verbs are for people, not for checks.
	if _, err = b.host.ExecTask(b.ctx(), tc.ID, []string{"wardyn", "status"}, time.Minute); err == nil {
		t.Error("a check used a control verb")
	}
}

func TestExecTaskTimeout(t *testing.T) {
	killed := make(chan struct{})
	b, tc := idling(t, benchOptions{wrap: deaf, fake: runnertest.Options{Programs: map[string]runnertest.Program{
		"hang": func(ctx context.Context, _ *runnertest.Process) int { <-ctx.Done(); close(killed); return 1 },
	}}})
	_, err := b.host.ExecTask(b.ctx(), tc.ID, []string{"hang"}, 20*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "did not end within 20ms") {
		t.Errorf("got %v", err)
	}
	select {
	case <-killed:
	case <-time.After(patience):
		t.Error("the command runs on")
	}
}

func TestExecStream(t *testing.T) {
	b, tc := idling(t, benchOptions{})
	var out, errs bytes.Buffer
	r, err := b.host.ExecTaskStreaming(b.ctx(), host.ExecRequest{
		TaskID: tc.ID, Command: []string{"sh", "-c", "echo out; echo err >&2; cat; exit 43"},
		Stdin: strings.NewReader("typed\n"), Stdout: &out, Stderr: &errs, Heartbeat: time.Millisecond,
	})
	if err != nil || r.ExitCode != 43 || out.String() != "out\ntyped\n" || errs.String() != "err\n" {
		t.Errorf("%+v, %v: %q, %q", r, err, out.String(), errs.String())
	}
	for _, bad := range []host.ExecRequest{
		{TaskID: tc.ID, Command: []string{"missing"}},
		{TaskID: tc.ID},
		{TaskID: "nobody", Command: []string{"true"}},
		{TaskID: "nobody", Command: []string{"wardyn", "status"}},
	} {
		if _, err := b.host.ExecTaskStreaming(b.ctx(), bad); err == nil {
			t.Errorf("%+v ran", bad)
		}
	}
}

// TestExecStreamIsComplete: a long output arrives whole, before the exit.
func TestExecStreamIsComplete(t *testing.T) {
	const lines = 20000
	b, tc := idling(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{
		"lines": func(_ context.Context, p *runnertest.Process) int {
			for i := range lines {
				fmt.Fprintln(p.Stdout, i)
			}
			return 5
		},
	}}})
	var out bytes.Buffer
	r, err := b.host.ExecTaskStreaming(b.ctx(), host.ExecRequest{TaskID: tc.ID, Command: []string{"lines"}, Stdout: &out})
	if err != nil || r.ExitCode != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := strings.Count(out.String(), "\n"); got != lines || !strings.HasSuffix(out.String(), "\n19999\n") {
		t.Errorf("%d lines", got)
	}
}

func TestExecTerminal(t *testing.T) {
	sizes := make(chan []string, 1)
	b, tc := idling(t, benchOptions{fake: runnertest.Options{Programs: map[string]runnertest.Program{
		"tty": func(ctx context.Context, p *runnertest.Process) int {
			fmt.Fprint(p.Stderr, "on stderr ")
			io.Copy(p.Stdout, p.Stdin)
			for ctx.Err() == nil && !slices.Contains(p.Sizes(), "100x100") { // it may still be on its way
				time.Sleep(5 * time.Millisecond)
			}
			sizes <- p.Sizes()
			return 0
		},
	}}})
	in, keys := io.Pipe()
	resize := make(chan host.TerminalSize)
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		_, err := b.host.ExecTaskStreaming(b.ctx(), host.ExecRequest{
			TaskID: tc.ID, Command: []string{"tty"}, TTY: true, Stdin: in, Stdout: &out, Resize: resize,
		})
		done <- err
	}()
	resize <- host.TerminalSize{Height: 24, Width: 50}
	io.WriteString(keys, "typed")
	resize <- host.TerminalSize{Height: 100, Width: 100}
	keys.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s := <-sizes; s[len(s)-1] != "100x100" {
		t.Errorf("sizes %v: the latest does not count", s)
	}
	if out.String() != "on stderr typed" {
		t.Errorf("printed %q", out.String())
	}
}

// TestExecWhoseUserLeaves: the process is killed, also one that reads nothing.
func TestExecWhoseUserLeaves(t *testing.T) {
	killed := make(chan struct{}, 1)
	b, tc := idling(t, benchOptions{wrap: deaf, fake: runnertest.Options{Programs: map[string]runnertest.Program{
		"hang": func(ctx context.Context, p *runnertest.Process) int {
			fmt.Fprintln(p.Stdout, "up")
			<-ctx.Done()
			killed <- struct{}{}
			return 1
		},
	}}})
	for name, in := range map[string]io.Reader{"silent": nil, "typing": endless{}} {
		ctx, leave := context.WithCancel(b.ctx())
		up := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := b.host.ExecTaskStreaming(ctx, host.ExecRequest{
				TaskID: tc.ID, Command: []string{"hang"}, Stdin: in, Stdout: &once{c: up},
			})
			ended <- err
		}()
		<-up
		leave()
		if err := <-ended; err == nil {
			t.Errorf("%s: no error", name)
		}
		select {
		case <-killed:
		case <-time.After(patience):
			t.Fatalf("%s: the process runs on", name)
		}
	}
}

// deaf is a runner whose execs end only when they are closed.
func deaf(in runner.Runner) runner.Runner {
	r := rig(in)
	r.deaf = true
	return r
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// once closes a channel at the first write.
type once struct {
	c    chan struct{}
	once sync.Once
}

func (o *once) Write(b []byte) (int, error) {
	o.once.Do(func() { close(o.c) })
	return len(b), nil
}

// TestExecOrder looks at the messages themselves: each stream is closed once,
// the exit comes last and alone.
func TestTrap40ExecMessages(t *testing.T) {
	b, tc := idling(t, benchOptions{})
	stream := &recorded{ctx: t.Context(), in: []*driverpb.ExecTaskStreamingRequest{
		{Setup: &driverpb.ExecTaskStreamingRequest_Setup{TaskId: tc.ID, Command: []string{"sh", "-c", "echo a; echo b >&2; exit 2"}}},
	}}
	if err := b.plugin().ExecTaskStreaming(stream); err != nil {
		t.Fatal(err)
	}
	closes := 0
	for i, m := range stream.out {
		kinds := 0
		for _, set := range []bool{m.GetStdout() != nil, m.GetStderr() != nil, m.GetExited()} {
			if set {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("message %d says %d things", i, kinds)
		}
		if m.GetStdout().GetClose() || m.GetStderr().GetClose() {
			closes++
		}
		if m.GetExited() != (i == len(stream.out)-1) {
			t.Errorf("message %d of %d: exited %v", i, len(stream.out), m.GetExited())
		}
	}
	if last := stream.out[len(stream.out)-1]; closes != 2 || last.GetResult().GetExitCode() != 2 {
		t.Errorf("%d closes, last %v", closes, last)
	}
	if err := b.plugin().ExecTaskStreaming(&recorded{ctx: t.Context(), in: []*driverpb.ExecTaskStreamingRequest{{}}}); err == nil {
		t.Error("an exec without set-up ran")
	}
}

func TestTrap40ReceiveErrorKills(t *testing.T) {
	b, tc := idling(t, benchOptions{wrap: deaf})
	stream := &recorded{ctx: t.Context(), hangUp: true, in: []*driverpb.ExecTaskStreamingRequest{
		{Setup: &driverpb.ExecTaskStreamingRequest_Setup{TaskId: tc.ID, Command: []string{"idle"}}},
	}}
	done := make(chan error, 1)
	go func() { done <- b.plugin().ExecTaskStreaming(stream) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("the command runs on")
	}
}

// recorded is a stream of which the test holds both ends. Its client sends what
// is in in and then nothing until it leaves.
type recorded struct {
	driverpb.Driver_ExecTaskStreamingServer
	ctx context.Context
	in  []*driverpb.ExecTaskStreamingRequest
	out []*driverpb.ExecTaskStreamingResponse
	// hangUp fails the receiving side alone, after in.
	hangUp bool
}

func (r *recorded) Context() context.Context { return r.ctx }

func (r *recorded) Recv() (*driverpb.ExecTaskStreamingRequest, error) {
	if len(r.in) == 0 && r.hangUp {
		return nil, io.ErrUnexpectedEOF
	}
	if len(r.in) == 0 {
		<-r.ctx.Done()
		return nil, r.ctx.Err()
	}
	m := r.in[0]
	r.in = r.in[1:]
	return m, nil
}

func (r *recorded) Send(m *driverpb.ExecTaskStreamingResponse) error {
	if err := wire.CheckAnswer(m); err != nil {
		return err
	}
	r.out = append(r.out, m)
	return nil
}
