package runnertest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// stdio is what a process beside the main one is connected to.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	tty      bool
	close    func() // ends all of them
}

// discarded is the stdio of an agent: nothing to read, nobody listening.
func discarded() stdio {
	return stdio{in: strings.NewReader(""), out: io.Discard, err: io.Discard, close: func() {}}
}

// launch starts argv beside the main process.
func (s *sandbox) launch(ctx context.Context, argv, env []string, io stdio) (*Process, error) {
	prog, ok := s.fake.programs[argv[0]]
	if !ok {
		return nil, fmt.Errorf("sandbox %s: exec %q: %w in the image", s.ref, argv[0], runner.ErrNotFound)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		return nil, err
	}
	p := &Process{Argv: argv, Env: s.env(env), TTY: io.tty, Stdin: io.in}
	p.Stdout, p.Stderr = s.gated(p, io.out), s.gated(p, io.err)
	s.side[p] = true
	p.start(context.WithValue(ctx, loopbackKey{}, &s.loop), prog, func() {
		io.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.side, p)
	})
	return p, nil
}

// ExecStream runs argv in a running sandbox with streams of its own. When ctx
// ends, so does the process.
func (f *Fake) ExecStream(ctx context.Context, ref string, spec runner.ExecSpec) (*runner.ExecSession, error) {
	s, err := f.begin(ctx, "ExecStream", ref)
	if err != nil {
		return nil, err
	}
	if len(spec.Argv) == 0 {
		return nil, fmt.Errorf("sandbox %s: %w: no command to execute", ref, runner.ErrInvalid)
	}
	pipes := newPipes(spec.TTY)
	p, err := s.launch(ctx, spec.Argv, spec.Env, pipes.stdio())
	if err != nil {
		return nil, err
	}
	if spec.TTY {
		p.resize(size(spec.Cols, spec.Rows))
	}
	release := context.AfterFunc(ctx, func() { p.end(runner.Exit{Code: killed.Code, Err: ctx.Err()}) })
	return &runner.ExecSession{
		Stdin:  pipes.inW,
		Stdout: pipes.outR,
		Stderr: pipes.errR,
		Resize: func(cols, rows uint16) error {
			if spec.TTY && cols > 0 && rows > 0 {
				p.resize(size(cols, rows))
			}
			return nil
		},
		Wait: func() (int, error) {
			<-p.done
			release()
			if p.exit.Err != nil {
				return 0, fmt.Errorf("sandbox %s: exec: %w", ref, p.exit.Err)
			}
			return p.exit.Code, nil
		},
		Close: func() error {
			p.end(killed)
			pipes.abandon()
			return nil
		},
	}, nil
}

// Attach opens a shell on a terminal.
func (f *Fake) Attach(ctx context.Context, ref string, o runner.AttachOptions) (runner.Session, error) {
	s, err := f.begin(ctx, "Attach", ref)
	if err != nil {
		return nil, err
	}
	pipes := newPipes(true)
	p, err := s.launch(ctx, []string{"sh"}, []string{"TERM=xterm-256color"}, pipes.stdio())
	if err != nil {
		return nil, err
	}
	p.resize(size(o.Cols, o.Rows))
	return &session{pipes: pipes, shell: p}, nil
}

type session struct {
	pipes *pipes
	shell *Process
}

func (s *session) Read(b []byte) (int, error)  { return s.pipes.outR.Read(b) }
func (s *session) Write(b []byte) (int, error) { return s.pipes.inW.Write(b) }

func (s *session) Resize(_ context.Context, cols, rows uint16) error {
	if cols > 0 && rows > 0 {
		s.shell.resize(size(cols, rows))
	}
	return nil
}

func (s *session) Close() error {
	s.shell.end(killed)
	s.pipes.abandon()
	return nil
}

func size(cols, rows uint16) string {
	if cols == 0 || rows == 0 {
		cols, rows = 80, 24
	}
	return fmt.Sprintf("%dx%d", cols, rows)
}

// pipes are the unbuffered streams between a process and whoever runs it.
type pipes struct {
	tty  bool
	inR  *io.PipeReader
	inW  *io.PipeWriter
	outR io.Reader
	errR io.Reader

	outW, errW io.WriteCloser
	once       sync.Once
	drop       func()
}

func newPipes(tty bool) *pipes {
	p := &pipes{tty: tty}
	p.inR, p.inW = io.Pipe()
	outR, outW := io.Pipe()
	p.outR, p.outW = outR, outW
	if tty {
		p.errR, p.errW = strings.NewReader(""), outW
		p.drop = func() { outR.Close() }
		return p
	}
	errR, errW := io.Pipe()
	p.errR, p.errW = errR, errW
	p.drop = func() { outR.Close(); errR.Close() }
	return p
}

func (p *pipes) stdio() stdio {
	return stdio{in: p.inR, out: p.outW, err: p.errW, tty: p.tty, close: func() {
		p.inR.Close()
		p.outW.Close()
		p.errW.Close()
	}}
}

// abandon ends the reading side as well: nobody will read any more.
func (p *pipes) abandon() { p.once.Do(p.drop) }
