package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

func TestExecStreaming(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	var out, errs bytes.Buffer
	resize := make(chan TerminalSize)
	in, feed := io.Pipe()
	go func() {
		resize <- TerminalSize{Height: 24, Width: 80}
		close(resize)
		_, _ = io.WriteString(feed, "hello ")
		_, _ = io.WriteString(feed, "world")
		_ = feed.Close()
	}()
	exit, err := p.ExecTaskStreaming(deadline(t), ExecRequest{
		TaskID: "x", Command: []string{"cat"}, TTY: true, Stdin: in, Stdout: &out, Stderr: &errs, Resize: resize,
		Heartbeat: time.Hour,
	})
	if err != nil || exit.ExitCode != 43 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if out.String() != "hello world" || errs.String() != "24x80 " {
		t.Errorf("output %q, %q", out.String(), errs.String())
	}
	if exit, err := p.ExecTaskStreaming(deadline(t), ExecRequest{TaskID: "x", Command: []string{"true"}}); err != nil || exit.ExitCode != 43 {
		t.Errorf("without input: %+v, %v", exit, err)
	}
}

// TestTrap40Heartbeat: a client sends empty messages while nothing else happens.
func TestTrap40Heartbeat(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	in, feed := io.Pipe()
	beats := writerFunc(func(data []byte) {
		if bytes.Contains(data, []byte("beat")) {
			_ = feed.Close()
		}
	})
	exit, err := p.ExecTaskStreaming(deadline(t), ExecRequest{
		TaskID: "x", Stdin: in, Stderr: beats, Heartbeat: time.Millisecond,
	})
	if err != nil || exit.ExitCode != 43 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestTrap40ExecEndings(t *testing.T) {
	type stream = grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]
	type answer = driverpb.ExecTaskStreamingResponse
	data := &driverpb.ExecTaskStreamingIOOperation{Data: []byte("x")}
	exited := &answer{Exited: true, Result: &driverpb.ExitResult{ExitCode: 4}}
	send := func(all ...*answer) func(stream) error {
		return func(s stream) error {
			for _, a := range all {
				if err := s.Send(a); err != nil {
					return err
				}
			}
			return nil
		}
	}
	rows := []struct {
		name   string
		stream func(stream) error
		fails  bool
		breach bool
	}{
		{"good", send(&answer{Stdout: data}, exited), false, false},
		{"no exit message", send(&answer{Stdout: data}), true, true},
		{"exit without result", send(&answer{Exited: true}), true, true},
		{"output after exit", send(exited, &answer{Stdout: data}), true, true},
		{"two things in one message", send(&answer{Stdout: data, Stderr: data}, exited), false, true},
		{"error", func(stream) error { return errors.New("no such task") }, true, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			f := newFake(nil)
			f.execStream = r.stream
			p := inMemory(t, f, Options{})
			exit, err := p.ExecTaskStreaming(deadline(t), ExecRequest{TaskID: "x", Stdout: io.Discard})
			if (err != nil) != r.fails || (!r.fails && exit.ExitCode != 4) {
				t.Errorf("exit %+v, error %v", exit, err)
			}
			if hasBreach(p, TrapExecEnd) != r.breach {
				t.Errorf("breaches: %v", p.Breaches())
			}
		})
	}
}

func TestExecUserLeaves(t *testing.T) {
	f := newFake(nil)
	ctx, leave := context.WithCancel(deadline(t))
	left := make(chan struct{})
	f.execStream = func(s grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]) error {
		leave()
		<-s.Context().Done()
		close(left)
		return s.Context().Err()
	}
	p := inMemory(t, f, Options{})
	if _, err := p.ExecTaskStreaming(ctx, ExecRequest{TaskID: "x", TTY: true}); err == nil {
		t.Error("no error for a user who left")
	}
	<-left
	if b := p.Breaches(); len(b) != 0 {
		t.Errorf("breaches: %v", b)
	}
}
