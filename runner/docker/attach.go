package docker

import (
	"context"
	"errors"
	"io"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Attach opens a shell in a running sandbox. Closing the session ends that
// shell (inside tmux: its view of it) and nothing else.
func (r *Runner) Attach(ctx context.Context, ref string, opts runner.AttachOptions) (runner.Session, error) {
	p, err := r.startExec(ctx, ctx, ref, runner.Shell(opts))
	if err != nil {
		return nil, err
	}
	return terminal{p}, nil
}

// terminal is a process on a terminal as a Session.
type terminal struct{ p *process }

// Read ends with io.EOF when the shell has exited or the session is closed.
func (t terminal) Read(b []byte) (int, error) {
	n, err := t.p.stdout.r.Read(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}

func (t terminal) Write(b []byte) (int, error) { return t.p.link.conn.Write(b) }

func (t terminal) Resize(_ context.Context, cols, rows uint16) error { return t.p.resize(cols, rows) }

func (t terminal) Close() error { return t.p.close() }
