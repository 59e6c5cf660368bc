package docker

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

var (
	_ runner.OutputReader = (*Runner)(nil)
	_ runner.LogDater     = (*Runner)(nil)
)

// SetOutput says who takes over the output of a sandbox's main process when it
// is started the next time, by Start after Park for instance: a process of this
// program that did not create the sandbox does not know it otherwise.
func (r *Runner) SetOutput(ref string, sink runner.OutputSink) { r.use.sinks.put(ref, sink) }

// AttachOutput opens the live output of a running sandbox. What was printed
// before is in ReadLog: attach first, then read, and nothing is missed. A
// suspended sandbox is ErrPrecondition, as is one whose process has exited: its
// log is complete, and an attachment to it would never end.
func (r *Runner) AttachOutput(ctx context.Context, ref string) (runner.OutputStream, error) {
	c, err := r.lookRunning(ctx, ref)
	if err != nil {
		return runner.OutputStream{}, err
	}
	out, err := r.attachStream(ctx, ref, c.Config.Tty)
	if err != nil {
		return runner.OutputStream{}, err
	}
	if _, err := r.lookRunning(ctx, ref); err != nil {
		out.Conn.Close()
		return runner.OutputStream{}, err
	}
	return out, nil
}

func (r *Runner) lookRunning(ctx context.Context, ref string) (container.InspectResponse, error) {
	c, err := r.look(ctx, ref)
	switch {
	case err != nil:
		return c, err
	case c.State.Paused:
		return c, frozen("attach to", ref)
	case !c.State.Running:
		return c, notRunning("attach to", ref, c.State)
	}
	return c, nil
}

// attachStream attaches to a container's output. The connection is a socket of
// its own with nothing of this process in between.
func (r *Runner) attachStream(ctx context.Context, ref string, tty bool) (runner.OutputStream, error) {
	q := url.Values{"stream": {"1"}, "stdout": {"1"}}
	if !tty {
		q.Set("stderr", "1")
	}
	ctx, cancel := call(ctx)
	defer cancel()
	s, err := r.hijack(ctx, "/containers/"+ref+"/attach", q, nil)
	if err != nil {
		return runner.OutputStream{}, refused("attach to "+ref, err)
	}
	return runner.OutputStream{Conn: s.conn, Early: s.early, Framed: !tty}, nil
}

// ReadLog reads one stream of the engine's log of a sandbox, from the oldest
// record that rotation has left to the newest, as it was printed.
func (r *Runner) ReadLog(ctx context.Context, ref, stream string) (io.ReadCloser, error) {
	return r.readLog(ctx, ref, stream, container.LogsOptions{})
}

// LogStart is when the oldest record that rotation has left was printed.
func (r *Runner) LogStart(ctx context.Context, ref, stream string) (time.Time, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	log, err := r.readLog(ctx, ref, stream, container.LogsOptions{Timestamps: true})
	if err != nil {
		return time.Time{}, err
	}
	defer log.Close()
	stamp, err := bufio.NewReaderSize(log, 64).ReadString(' ')
	if err == io.EOF {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, refused("log of "+ref, err)
	}
	at, err := time.Parse(time.RFC3339Nano, strings.TrimSuffix(stamp, " "))
	if err != nil {
		return time.Time{}, fmt.Errorf("log of %s: %w", ref, err)
	}
	return at, nil
}

func (r *Runner) readLog(ctx context.Context, ref, stream string, o container.LogsOptions) (io.ReadCloser, error) {
	o.ShowStdout, o.ShowStderr = stream == "stdout", stream == "stderr"
	if !o.ShowStdout && !o.ShowStderr {
		return nil, fmt.Errorf("log of %s: stream %q: %w: want stdout or stderr", ref, stream, runner.ErrInvalid)
	}
	c, err := r.look(ctx, ref)
	if err != nil {
		return nil, err
	}
	if c.Config.Tty && o.ShowStderr {
		return io.NopCloser(bytes.NewReader(nil)), nil // a terminal is all stdout
	}
	raw, err := r.api.ContainerLogs(ctx, ref, o)
	if err != nil {
		return nil, refused("log of "+ref, err)
	}
	if c.Config.Tty {
		return raw, nil
	}
	return unframe(raw), nil
}

// unframe strips the frames off a log of which one stream was asked for.
func unframe(raw io.ReadCloser) io.ReadCloser {
	pr, pw := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(pw, pw, raw)
		pw.CloseWithError(err)
	}()
	return &unframed{pr, raw}
}

type unframed struct {
	*io.PipeReader
	raw io.Closer
}

func (u *unframed) Close() error {
	u.PipeReader.Close()
	return u.raw.Close()
}

// sinks remembers, per sandbox, who takes over its main process's output. It
// lives in memory only: after a restart of this process the output of a
// running sandbox is taken up again through AttachOutput and ReadLog. The zero
// value is ready for use.
type sinks struct {
	mu sync.Mutex
	m  map[string]runner.OutputSink
}

// put sets the sink of a sandbox; nil is none.
func (s *sinks) put(ref string, sink runner.OutputSink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[string]runner.OutputSink)
	}
	s.m[ref] = sink
}

// get is the sink of a sandbox, nil when there is none.
func (s *sinks) get(ref string) runner.OutputSink {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[ref]
}

// drop forgets a sandbox's sink.
func (s *sinks) drop(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, ref)
}
