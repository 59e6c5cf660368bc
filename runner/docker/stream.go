package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// A terminal's size and type where nobody says otherwise.
const (
	defaultCols = 80
	defaultRows = 24
	defaultTerm = "TERM=xterm-256color"
)

// ExecStream runs argv in the sandbox as a fresh process under the recorder,
// which makes sure that it can be killed, and that it ends when argv does even
// if a child of it holds on to the output.
//
// ctx is the session's life: when it ends, so do stream and process. A
// suspended sandbox is ErrPrecondition. A program that does not exist is no
// error here: it exits with 127 and says so on stderr, as in a shell. Where the
// runtime refuses to start anything, Wait returns 126 or 127 together with the
// reason as an error, and the reason is no output.
func (r *Runner) ExecStream(ctx context.Context, ref string, spec runner.ExecSpec) (*runner.ExecSession, error) {
	p, err := r.startExec(ctx, ctx, ref, spec)
	if err != nil {
		return nil, err
	}
	return p.session(), nil
}

// process is one exec of ours in a sandbox, and its streams.
type process struct {
	r    *Runner
	ref  string
	id   string // the recorder's name for it, which kill takes
	exec string // the engine's name for it
	tty  bool
	link stream

	stdout, stderr pipe
	resizing       sync.Mutex // sizes are set one after the other
	typed          typed

	ctx       context.Context // over when the session is closed
	cancel    context.CancelFunc
	unwatch   func() bool
	closeOnce sync.Once
	closeErr  error

	done chan struct{} // closed when the fields below are set
	code int
	err  error
	over bool // the process is known to have ended, or not to have started
}

type pipe struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}

// startExec starts a process. ctx bounds the start, life the process.
func (r *Runner) startExec(ctx, life context.Context, ref string, spec runner.ExecSpec) (*process, error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return nil, fmt.Errorf("exec in %s: %w: no command", ref, runner.ErrInvalid)
	}
	if spec.Cols == 0 || spec.Rows == 0 {
		spec.Cols, spec.Rows = defaultCols, defaultRows
	}
	p := &process{r: r, ref: ref, id: newExecID(), tty: spec.TTY,
		stdout: newPipe(), stderr: newPipe(), done: make(chan struct{})}
	ctx, cancel := call(ctx)
	defer cancel()
	if !r.use.own.has(ref) {
		if _, err := r.look(ctx, ref); err != nil {
			return nil, err
		}
	}
	if err := p.connect(ctx, execOptions(p.id, spec)); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancel(life)
	if p.tty {
		// Old engines ignore the size of the start. A later size waits for
		// this one, so that it cannot be overtaken by it.
		p.resizing.Lock()
		go func() {
			defer p.resizing.Unlock()
			if err := p.setSize(spec.Cols, spec.Rows); err != nil {
				r.opts.Log.Debug("terminal size not set", "ref", ref, "error", err)
			}
		}()
	}
	p.unwatch = context.AfterFunc(life, func() { p.close() })
	go p.pump()
	return p, nil
}

// connect creates the exec and starts it with its streams attached.
func (p *process) connect(ctx context.Context, o container.ExecOptions) error {
	var err error
	if p.exec, err = p.r.createExec(ctx, p.ref, o); err != nil {
		return err
	}
	p.link, err = p.r.hijack(ctx, "/exec/"+p.exec+"/start", nil, container.ExecStartOptions{Tty: o.Tty, ConsoleSize: o.ConsoleSize})
	if err == nil {
		return nil
	}
	err, _ = p.r.execRefused(ctx, p.ref, err)
	if ctx.Err() != nil || errors.Is(err, runner.ErrUnavailable) {
		// The engine may have heard of the start, and nobody else will end
		// what comes of it.
		go func() {
			if err := p.r.killExec(p.ref, p.exec, p.id); err != nil {
				p.r.opts.Log.Warn("exec without an answer", "ref", p.ref, "error", err)
			}
		}()
	}
	return err
}

// execOptions is what the engine is asked for. One recorder carries one exec.
func execOptions(id string, spec runner.ExecSpec) container.ExecOptions {
	cmd := []string{recorderTarget, "exec"}
	env := slices.Clone(spec.Env)
	var size *[2]uint
	if spec.TTY {
		cmd = append(cmd, "-cols", strconv.Itoa(int(spec.Cols)), "-rows", strconv.Itoa(int(spec.Rows)))
		size = &[2]uint{uint(spec.Rows), uint(spec.Cols)}
		if !slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, "TERM=") }) {
			env = append(env, defaultTerm)
		}
	}
	return container.ExecOptions{
		Cmd: append(append(cmd, id, "--"), spec.Argv...),
		Env: env, Tty: spec.TTY, ConsoleSize: size,
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
	}
}

func newExecID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// session is the process as the contract shows it.
func (p *process) session() *runner.ExecSession {
	s := &runner.ExecSession{
		Stdin: stdin{p}, Stdout: p.stdout.r, Stderr: p.stderr.r,
		Resize: p.resize, Wait: p.wait, Close: p.close,
	}
	if p.tty {
		s.Stderr = bytes.NewReader(nil)
	}
	return s
}
