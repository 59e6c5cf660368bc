package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// box is a sandbox without network and sidecar: what is tested with it is the
// using of a sandbox and not the making of one.
type box struct {
	*Runner
	ref string
	cl  *client.Client
}

// boxSpec is what a test wants of its box.
type boxSpec struct {
	world    *world // nil: one of its own
	runtime  string
	argv     []string // nil: an idle sandbox
	tty      bool
	stdin    bool
	memoryMB int64
	output   runner.OutputSink
	bare     bool // no recorder in it; it idles
}

// eachRuntime runs a test under every runtime of the engine, at once: each has
// a world of its own, and most of its time goes by waiting for the engine.
func eachRuntime(t *testing.T, test func(t *testing.T, runtime string)) {
	for _, rt := range testenv.Runtimes(t) {
		t.Run(rt, func(t *testing.T) {
			t.Parallel()
			test(t, rt)
		})
	}
}

// newBox creates a box. Without argv it idles and runs; with one it is created.
func newBox(t *testing.T, s boxSpec) *box {
	t.Helper()
	w := s.world
	if w == nil {
		w = newWorld(t)
	}
	if s.bare {
		return bareBox(t, w, s.runtime)
	}
	w.assumeWorks(t, classFor(s.runtime), s.runtime)
	spec := specFor(t, s.runtime)
	spec.Resources.MemoryMiB = s.memoryMB
	spec.Task = &runner.TaskProcess{
		Argv: s.argv, Idle: s.argv == nil, User: "1000:1000", TTY: s.tty, Stdin: s.stdin,
		Output: s.output, NoNetwork: true,
	}
	b := &box{Runner: w.Runner, ref: w.sandbox(t, spec), cl: w.cl}
	if s.argv == nil {
		b.start(t)
	}
	return b
}

// bareBox is a container of ours without a recorder, hence one that no
// CreateSandbox makes.
func bareBox(t *testing.T, w *world, runtime string) *box {
	t.Helper()
	run := uuid.New()
	b := &box{Runner: w.Runner, ref: AgentName(run), cl: w.cl}
	_, err := w.cl.ContainerCreate(t.Context(), &container.Config{
		Image: testenv.Image(t), Entrypoint: []string{"sleep"}, Cmd: []string{"98765"}, User: "1000:1000",
		Labels: b.reservedOf(b.ref, componentAgent, run, classFor(runtime)),
	}, &container.HostConfig{Runtime: runtime, NetworkMode: "none"}, nil, nil, b.ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.KillSandbox(ctx, b.ref); err != nil {
			t.Error(err)
		}
	})
	if err := b.Start(t.Context(), b.ref); err != nil {
		t.Fatal(err)
	}
	return b
}

// start starts the main process through the contract.
func (b *box) start(t *testing.T) {
	t.Helper()
	if id, err := b.Exec(t.Context(), b.ref, nil); err != nil || id != "" {
		t.Fatalf("Exec = %q, %v", id, err)
	}
}

// startedBox is a box whose main process runs.
func startedBox(t *testing.T, s boxSpec) *box {
	t.Helper()
	b := newBox(t, s)
	b.start(t)
	return b
}

// soon is a context that ends a test which hangs, so that it cleans up.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

// result is what an exec gave.
type result struct {
	stdout, stderr string
	code           int
	err            error
}

// run runs argv in the box and drains both streams side by side.
func (b *box) run(t *testing.T, spec runner.ExecSpec, stdin string) result {
	t.Helper()
	s, err := b.ExecStream(soon(t), b.ref, spec)
	if err != nil {
		t.Fatalf("ExecStream(%q): %v", spec.Argv, err)
	}
	defer s.Close()
	return drain(s, strings.NewReader(stdin))
}

// drain feeds a session and reads it to its end.
func drain(s *runner.ExecSession, stdin io.Reader) result {
	var res result
	var out, errs bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { io.Copy(&out, s.Stdout) })
	wg.Go(func() { io.Copy(&errs, s.Stderr) })
	if stdin != nil {
		wg.Go(func() {
			io.Copy(s.Stdin, stdin)
			s.Stdin.Close()
		})
	}
	res.code, res.err = s.Wait()
	wg.Wait()
	res.stdout, res.stderr = out.String(), errs.String()
	return res
}

// collector is a sink that keeps what it is given, and knows its end.
type collector struct {
	mu     sync.Mutex
	frames bool
	raw    []byte
	ended  chan struct{}
}

func newCollector() *collector { return &collector{ended: make(chan struct{})} }

func (c *collector) Follow(_ context.Context, _ string, s runner.OutputStream) error {
	c.frames = s.Framed
	go func() {
		defer close(c.ended)
		defer s.Conn.Close()
		b, _ := io.ReadAll(io.MultiReader(bytes.NewReader(s.Early), s.Conn))
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw = append(c.raw, b...)
	}()
	return nil
}

// streams waits for the end and returns both streams.
func (c *collector) streams(t *testing.T) (stdout, stderr string) {
	t.Helper()
	testenv.Await(t, "the end of its output", c.ended)
	if !c.frames {
		return string(c.raw), ""
	}
	var out, errs bytes.Buffer
	if err := demux(&out, &errs, bytes.NewReader(c.raw)); err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String()
}

// demux follows the contract's description of frames, not the client's code.
func demux(out, errs io.Writer, r io.Reader) error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		w := map[byte]io.Writer{1: out, 2: errs}[head[0]]
		if w == nil {
			return fmt.Errorf("frame of stream %d", head[0])
		}
		n := int64(head[4])<<24 | int64(head[5])<<16 | int64(head[6])<<8 | int64(head[7])
		if _, err := io.CopyN(w, r, n); err != nil {
			return err
		}
	}
}
