package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// ExecTaskStreaming runs a command with live streams. "wardyn" is no command in
// the sandbox but this plugin itself; see verbs.go.
func (p *Plugin) ExecTaskStreaming(stream driverpb.Driver_ExecTaskStreamingServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if len(first.GetSetup().GetCommand()) == 0 {
		return status.Error(codes.InvalidArgument, "the first message of an exec must name the command")
	}
	in := receive(stream)
	err = refuseExec(stream, p.execute(stream, first, in))
	in.hearOut(stream.Context()) // also of a refusal, or its reason is lost
	return err
}

// execute answers a verb or runs a command.
func (p *Plugin) execute(stream driverpb.Driver_ExecTaskStreamingServer, first *driverpb.ExecTaskStreamingRequest, in inbox) error {
	setup := first.GetSetup()
	t, ok := p.tasks.get(TaskID(setup.GetTaskId()))
	shell := asksShell(setup.GetCommand())
	if ok && setup.GetCommand()[0] == verbCommand && !shell {
		return p.answerVerb(&replies{stream: stream}, t, setup.GetCommand()[1:])
	}
	t, b, err := p.living(setup.GetTaskId())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	spec := runner.ExecSpec{Argv: setup.GetCommand(), TTY: setup.GetTty()}
	if shell {
		if !spec.TTY {
			return callError(fmt.Errorf("wardyn shell needs a terminal; run nomad alloc exec -i -t: %w", runner.ErrInvalid))
		}
		spec = runner.Shell(runner.AttachOptions{})
	}
	held := []*driverpb.ExecTaskStreamingRequest{first}
	if spec.TTY {
		held = awaitSize(held, in.messages)
		for _, m := range held {
			if size := m.GetTtySize(); size != nil {
				spec.Cols, spec.Rows = cells(size.GetWidth()), cells(size.GetHeight())
			}
		}
	}
	session, err := b.Runner.ExecStream(ctx, t.state.Ref, spec)
	if err != nil {
		return callError(fmt.Errorf("exec in task %q: %w", t.config.GetName(), err))
	}
	defer session.Close()
	defer p.recordExec(t, spec, session)()
	// Whoever leaves ends the process, also while it is not being read.
	defer context.AfterFunc(ctx, func() { session.Close() })()
	go feed(held, in.messages, session, cancel)
	return drainExec(&replies{stream: stream}, session)
}

// asksShell reports whether a command is the verb that opens a shell: the one
// verb that is a process in the sandbox.
func asksShell(argv []string) bool {
	return len(argv) == 2 && argv[0] == verbCommand && (argv[1] == "shell" || argv[1] == "attach")
}

// sizeGrace is how long a program on a terminal waits for the terminal's size.
// Clients send it in a message of its own, at once; a program that starts before
// it comes would first draw for a terminal of another size.
const sizeGrace = 250 * time.Millisecond

// awaitSize collects messages until one holds the terminal's size, for a moment.
func awaitSize(held []*driverpb.ExecTaskStreamingRequest, in <-chan *driverpb.ExecTaskStreamingRequest) []*driverpb.ExecTaskStreamingRequest {
	grace := time.NewTimer(sizeGrace)
	defer grace.Stop()
	for held[len(held)-1].GetTtySize() == nil {
		select {
		case m, ok := <-in:
			if !ok {
				return held
			}
			held = append(held, m)
		case <-grace.C:
			return held
		}
	}
	return held
}

// feed passes on what the user sends, first what was held back, until the user
// leaves. Empty messages are heartbeats; the client never half-closes.
func feed(held []*driverpb.ExecTaskStreamingRequest, in <-chan *driverpb.ExecTaskStreamingRequest, s *runner.ExecSession, leave context.CancelFunc) {
	defer leave()
	keys, sizes := make(chan []byte, 16), make(chan *driverpb.ExecTaskStreamingRequest_TerminalSize, 1)
	defer close(keys)
	defer close(sizes)
	go typeKeys(s, keys)
	go setSizes(s, sizes)
	pass := func(m *driverpb.ExecTaskStreamingRequest) {
		if size := m.GetTtySize(); size != nil {
			select { // only the latest size counts
			case <-sizes:
			default:
			}
			sizes <- size
		}
		op := m.GetStdin()
		if len(op.GetData()) > 0 {
			keys <- op.GetData()
		}
		if op.GetClose() {
			keys <- nil
		}
	}
	for _, m := range held {
		pass(m)
	}
	for m := range in {
		pass(m)
	}
}

// typeKeys writes to the process; nil ends its input. Nothing is made of an
// error: a process that does not read any more ends by itself.
func typeKeys(s *runner.ExecSession, keys <-chan []byte) {
	for b := range keys {
		if b == nil {
			s.Stdin.Close()
			continue
		}
		s.Stdin.Write(b)
	}
}

// setSizes tells the terminal its size, apart from the keys: the engine may
// take long over it.
func setSizes(s *runner.ExecSession, sizes <-chan *driverpb.ExecTaskStreamingRequest_TerminalSize) {
	for size := range sizes {
		s.Resize(cells(size.GetWidth()), cells(size.GetHeight()))
	}
}

// cells is a width or height as terminals count it.
func cells(n int32) uint16 { return uint16(min(max(n, 0), 1<<16-1)) }

// drainExec passes on what the process prints and then how it ended: the exit
// comes last, for clients stop reading there.
func drainExec(out *replies, s *runner.ExecSession) error {
	var copies sync.WaitGroup
	var errs [2]error
	copies.Go(func() { errs[0] = pass(out.stdout(), s.Stdout, s) })
	copies.Go(func() { errs[1] = pass(out.stderr(), s.Stderr, s) })
	copies.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err // the user has left
	}
	code, err := s.Wait()
	if err != nil {
		return callError(fmt.Errorf("exec: %w", err))
	}
	return out.exit(code)
}

// replies sends to one client: one message at a time, one thing in each.
type replies struct {
	stream driverpb.Driver_ExecTaskStreamingServer
	mu     sync.Mutex
}

func (r *replies) send(m *driverpb.ExecTaskStreamingResponse) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stream.Send(m)
}

func (r *replies) exit(code int) error {
	return r.send(&driverpb.ExecTaskStreamingResponse{Exited: true, Result: &driverpb.ExitResult{ExitCode: int32(code)}})
}

func (r *replies) stdout() *replyStream {
	return &replyStream{r, func(op *driverpb.ExecTaskStreamingIOOperation) *driverpb.ExecTaskStreamingResponse {
		return &driverpb.ExecTaskStreamingResponse{Stdout: op}
	}}
}

func (r *replies) stderr() *replyStream {
	return &replyStream{r, func(op *driverpb.ExecTaskStreamingIOOperation) *driverpb.ExecTaskStreamingResponse {
		return &driverpb.ExecTaskStreamingResponse{Stderr: op}
	}}
}

// replyStream is one of the two streams.
type replyStream struct {
	to   *replies
	wrap func(*driverpb.ExecTaskStreamingIOOperation) *driverpb.ExecTaskStreamingResponse
}

func (s *replyStream) Write(b []byte) (int, error) {
	if err := s.to.send(s.wrap(&driverpb.ExecTaskStreamingIOOperation{Data: b})); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s *replyStream) Close() error {
	return s.to.send(s.wrap(&driverpb.ExecTaskStreamingIOOperation{Close: true}))
}
