package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// execOutput is how much of a check's output is kept, from its end.
const execOutput = 4 << 10

// ExecTask runs a command in a task for a script check or a template's change
// script. Both look at standard output alone, so both streams go there.
func (p *Plugin) ExecTask(ctx context.Context, r *driverpb.ExecTaskRequest) (*driverpb.ExecTaskResponse, error) {
	t, b, err := p.living(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	timeout := r.GetTimeout().AsDuration()
	cancel := context.CancelFunc(func() {})
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	out := &tail{most: execOutput}
	code, err := execCollect(ctx, b.Runner, t.state.Ref, r.GetCommand(), out)
	switch {
	case err != nil && ctx.Err() != nil && timeout > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, status.Errorf(codes.DeadlineExceeded, "the command did not end within %s and was killed", timeout)
	case err != nil:
		return nil, callError(fmt.Errorf("exec in task %q: %w", t.config.GetName(), err))
	}
	return &driverpb.ExecTaskResponse{Stdout: out.bytes(), Result: &driverpb.ExitResult{ExitCode: int32(code)}}, nil
}

// execCollect runs argv and writes both its streams to out. When ctx ends the
// process is killed.
func execCollect(ctx context.Context, r runner.Runner, ref string, argv []string, out io.Writer) (int, error) {
	s, err := r.ExecStream(ctx, ref, runner.ExecSpec{Argv: argv})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Stdin.Close(); err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("close standard input: %w", err)
	}
	var copies sync.WaitGroup
	for _, from := range []io.Reader{s.Stdout, s.Stderr} {
		copies.Go(func() { io.Copy(out, from) })
	}
	copies.Wait()
	code, err := s.Wait()
	return code, errors.Join(err, ctx.Err())
}

// tail keeps the last bytes written to it.
type tail struct {
	most int
	mu   sync.Mutex
	buf  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - t.most; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf
}
