package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// heartbeatInterval is how often a client sends an empty message on an exec stream.
const heartbeatInterval = 10 * time.Second

// ExecResult is the outcome of a command that was not streamed.
type ExecResult struct {
	Stdout []byte
	Stderr []byte
	Exit   ExitResult
}

// ExecTask runs a command in a task and waits for it, as script checks do. timeout 0 is no
// limit. A non-zero exit is a result, not an error.
func (p *Plugin) ExecTask(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error) {
	inst, err := p.instance(ctx)
	if err != nil {
		return ExecResult{}, err
	}
	answer, err := inst.Driver.ExecTask(ctx, &driverpb.ExecTaskRequest{
		TaskId: id, Command: command, Timeout: durationpb.New(timeout),
	})
	if err != nil {
		return ExecResult{}, p.settle(ctx, inst, "ExecTask", err)
	}
	if err := p.breaches.check("ExecTask", answer); err != nil {
		return ExecResult{}, err
	}
	return ExecResult{Stdout: answer.GetStdout(), Stderr: answer.GetStderr(), Exit: fromExit(answer.GetResult(), "")}, nil
}

// TerminalSize is a terminal's size in characters.
type TerminalSize struct{ Height, Width int }

// ExecRequest is a command to run in a task with its streams connected.
type ExecRequest struct {
	TaskID  string
	Command []string
	TTY     bool

	// Stdin is read until its end, which ends the command's input. nil is an empty input;
	// with a terminal nil leaves the input open, as a terminal's is.
	Stdin  io.Reader
	Stdout io.Writer // nil drops
	Stderr io.Writer // nil drops; unused with a terminal

	Resize <-chan TerminalSize // sizes of the terminal; may be nil

	Heartbeat time.Duration // between empty messages; default 10 s
}

// ExecTaskStreaming runs a command with its streams connected until it exits. Ending ctx is
// the user leaving. When the command ends before Stdin does, one read of Stdin stays pending.
func (p *Plugin) ExecTaskStreaming(ctx context.Context, r ExecRequest) (ExitResult, error) {
	inst, err := p.instance(ctx)
	if err != nil {
		return ExitResult{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := inst.Driver.ExecTaskStreaming(ctx)
	if err != nil {
		return ExitResult{}, p.settle(ctx, inst, "ExecTaskStreaming", err)
	}
	s := &execStream{stream: stream, breaches: p.breaches, req: r}
	err = s.send(&driverpb.ExecTaskStreamingRequest{Setup: &driverpb.ExecTaskStreamingRequest_Setup{
		TaskId: r.TaskID, Command: r.Command, Tty: r.TTY,
	}})
	if err == nil || errors.Is(err, io.EOF) { // the plugin's own error comes with Recv
		go s.feed()
		go s.pulse(ctx)
		var exit ExitResult
		if exit, err = s.receive(); err == nil {
			return exit, nil
		}
	}
	return ExitResult{}, p.settle(ctx, inst, "ExecTaskStreaming", err)
}

// execStream is one streaming exec. gRPC allows one sender at a time.
type execStream struct {
	stream   grpc.BidiStreamingClient[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]
	breaches *breachLog
	req      ExecRequest
	mu       sync.Mutex // guards sending
}

func (s *execStream) send(m *driverpb.ExecTaskStreamingRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(m)
}

// feed sends the input and then its end. The sending side of the stream is never closed:
// clients don't.
func (s *execStream) feed() {
	if s.req.Stdin == nil && s.req.TTY {
		return
	}
	if s.req.Stdin != nil {
		if _, err := io.Copy(stdinWriter{s}, s.req.Stdin); err != nil {
			return // the stream is over, or the user's input broke off
		}
	}
	_ = s.send(&driverpb.ExecTaskStreamingRequest{ // receive tells how the stream ended
		Stdin: &driverpb.ExecTaskStreamingIOOperation{Close: true},
	})
}

type stdinWriter struct{ s *execStream }

func (w stdinWriter) Write(data []byte) (int, error) {
	err := w.s.send(&driverpb.ExecTaskStreamingRequest{Stdin: &driverpb.ExecTaskStreamingIOOperation{Data: data}})
	if err != nil {
		return 0, err
	}
	return len(data), nil
}

// pulse sends terminal sizes as they come and a heartbeat now and then.
func (s *execStream) pulse(ctx context.Context) {
	interval := s.req.Heartbeat
	if interval == 0 {
		interval = heartbeatInterval
	}
	beat := time.NewTicker(interval)
	defer beat.Stop()
	for {
		m := &driverpb.ExecTaskStreamingRequest{}
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		case size, ok := <-s.req.Resize:
			if !ok {
				s.req.Resize = nil
				continue
			}
			m.TtySize = &driverpb.ExecTaskStreamingRequest_TerminalSize{
				Height: int32(size.Height), Width: int32(size.Width),
			}
		}
		if s.send(m) != nil {
			return // receive tells how the stream ended
		}
	}
}

// receive writes the output out and returns the exit message's result.
func (s *execStream) receive() (ExitResult, error) {
	var exit *ExitResult
	for {
		m, err := s.stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && exit != nil:
			return *exit, nil
		case errors.Is(err, io.EOF):
			return ExitResult{}, s.breaches.add(TrapExecEnd, "ExecTaskStreaming", "the stream ended without an exit message")
		case err != nil:
			return ExitResult{}, err
		}
		if exit != nil {
			return *exit, s.breaches.add(TrapExecEnd, "ExecTaskStreaming", "a message came after the exit message")
		}
		if exit, err = s.take(m); err != nil {
			return ExitResult{}, err
		}
	}
}

// take handles one message; the result is not nil for the exit message.
func (s *execStream) take(m *driverpb.ExecTaskStreamingResponse) (*ExitResult, error) {
	kinds := 0
	for _, present := range []bool{m.GetStdout() != nil, m.GetStderr() != nil, m.GetExited()} {
		if present {
			kinds++
		}
	}
	if kinds > 1 {
		s.breaches.add(TrapExecEnd, "ExecTaskStreaming", "one message carries several things; clients read the first")
	}
	switch {
	case m.GetStdout() != nil:
		return nil, write(s.req.Stdout, m.GetStdout())
	case m.GetStderr() != nil:
		return nil, write(s.req.Stderr, m.GetStderr())
	case m.GetExited():
		if err := s.breaches.check("ExecTaskStreaming", m); err != nil {
			return nil, err
		}
		exit := fromExit(m.GetResult(), "")
		return &exit, nil
	}
	return nil, nil
}

func write(w io.Writer, op *driverpb.ExecTaskStreamingIOOperation) error {
	if w == nil || len(op.GetData()) == 0 {
		return nil
	}
	if _, err := w.Write(op.GetData()); err != nil {
		return fmt.Errorf("write the command's output: %w", err)
	}
	return nil
}
