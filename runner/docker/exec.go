package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// use is what a Runner remembers of the sandboxes it serves. Nothing in it is
// needed to find or to end a sandbox again. The zero value is ready for use.
type use struct {
	own    own
	sinks  sinks
	agents agents
	groups groups
	owed   owed
	ending own // sandboxes whose sidecar ends with them
	unseen own // sandboxes whose end the engine may not have seen
	gives  own // sandboxes that were seen to show the engine their changes
}

// forget drops what is remembered of a sandbox that is gone.
func (u *use) forget(ref string) {
	u.own.drop(ref)
	u.sinks.drop(ref)
	u.agents.drop(ref)
	u.groups.drop(ref)
	u.ending.drop(ref)
	u.unseen.drop(ref)
	u.gives.drop(ref)
	u.groups.drop(sidecarGroup(ref))
	u.owed.take(ref)
}

// Exec starts the agent. With a main process (SandboxSpec.Task) argv must be
// empty: its output is handed to the task's sink, it is started, and the id is
// "". In an idle sandbox argv is started on a terminal and the id names it.
func (r *Runner) Exec(ctx context.Context, ref string, argv []string) (string, error) {
	c, err := r.look(ctx, ref)
	if err != nil {
		return "", err
	}
	if len(argv) > 0 {
		return r.execAgent(ctx, ref, c, argv)
	}
	switch {
	case c.State.Running && idles(c.Config):
		return "", fmt.Errorf("exec in %s: %w: the sandbox idles, so a command is needed", ref, runner.ErrInvalid)
	case c.State.Running:
		return "", fmt.Errorf("start %s: %w: it runs already", ref, runner.ErrPrecondition)
	case started(c.State):
		return "", notRunning("start", ref, c.State)
	}
	by := asked{image: c.Config.Labels[labelImage], user: c.Config.User, workDir: c.Config.WorkingDir}
	return "", explained(r.startMain(ctx, ref, c.Config.Tty), by, startWords)
}

// startMain starts the container, after its sink has taken the output over:
// nothing that is printed is missed that way. Links are looked at as late as
// can be: others may write to what it has mounted.
func (r *Runner) startMain(ctx context.Context, ref string, tty bool) error {
	if sink := r.use.sinks.get(ref); sink != nil {
		out, err := r.attachStream(ctx, ref, tty)
		if err != nil {
			return err
		}
		if err := sink.Follow(ctx, ref, out); err != nil {
			out.Conn.Close()
			return fmt.Errorf("hand over the output of %s: %w", ref, err)
		}
	}
	c, err := r.inspectContainer(ctx, ref)
	if err != nil {
		return err
	}
	if err := checkContainerLinks(c); err != nil {
		return fmt.Errorf("start %s: %w", ref, err)
	}
	// Without a sink nothing is attached: the engine's own log takes the
	// output, and a process that prints is never held up.
	ctx, cancel := call(ctx)
	defer cancel()
	return refused("start "+ref, r.api.ContainerStart(ctx, ref, container.StartOptions{}))
}

// execAgent starts argv in an idle sandbox.
func (r *Runner) execAgent(ctx context.Context, ref string, c container.InspectResponse, argv []string) (string, error) {
	switch {
	case !idles(c.Config):
		return "", fmt.Errorf("exec in %s: %w: its command is its main process, so argv must be empty", ref, runner.ErrInvalid)
	case c.State.Paused:
		return "", frozen("exec in", ref)
	case !c.State.Running:
		return "", notRunning("exec in", ref, c.State)
	}
	out, err := r.agentOutput(ctx, ref)
	if err != nil {
		return "", err
	}
	// The agent outlives the request that started it.
	p, err := r.startExec(ctx, context.WithoutCancel(ctx), ref, runner.ExecSpec{Argv: argv, TTY: true})
	if err != nil {
		out.Close()
		return "", err
	}
	r.use.agents.add(ref, p)
	go func() {
		defer out.Close()
		// A sink that stops reading must not stop the agent.
		if _, err := io.Copy(out, p.stdout.r); err != nil {
			io.Copy(io.Discard, p.stdout.r)
		}
		if code, err := p.wait(); err == nil {
			r.keepExit(ref, p.exec, code)
		}
	}()
	return p.exec, r.awaitStart(ctx, p)
}

// awaitStart waits until the engine shows the process: its answer to a start
// comes before that.
func (r *Runner) awaitStart(ctx context.Context, p *process) error {
	ctx, cancel := call(ctx)
	defer cancel()
	var pause backoff
	for {
		s, err := r.inspectExec(ctx, p.exec)
		if err == nil && (s.Running || s.ExitCode != nil) {
			return nil
		}
		if pause.sleep(ctx) != nil {
			return errors.Join(fmt.Errorf("exec in %s: %w: it did not start in time", p.ref, runner.ErrUnavailable), err, p.close())
		}
	}
}

// agentOutput is where an agent's output goes: to the sandbox's sink as an
// unframed stream, or nowhere.
func (r *Runner) agentOutput(ctx context.Context, ref string) (io.WriteCloser, error) {
	sink := r.use.sinks.get(ref)
	if sink == nil {
		return nowhere{io.Discard}, nil
	}
	ours, theirs, err := connPair()
	if err != nil {
		return nil, fmt.Errorf("hand over the output of %s: %w", ref, err)
	}
	if err := sink.Follow(ctx, ref, runner.OutputStream{Conn: theirs}); err != nil {
		ours.Close()
		theirs.Close()
		return nil, fmt.Errorf("hand over the output of %s: %w", ref, err)
	}
	return ours, nil
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

// connPair is a pair of connected sockets that can be handed to other processes.
func connPair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if a, err = fileConn(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	if b, err = fileConn(fds[1]); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

func fileConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "output")
	defer f.Close() // FileConn duplicates it
	return net.FileConn(f)
}

// idles reports whether a container's main process does nothing but wait for
// execs: the reference's idle script, or the recorder told to idle.
func idles(c *container.Config) bool {
	argv := slices.Concat(c.Entrypoint, c.Cmd)
	if len(argv) >= 2 && argv[0] == recorderTarget && argv[1] == "init" {
		flags := argv[2:]
		if i := slices.Index(flags, "--"); i >= 0 {
			flags = flags[:i]
		}
		if slices.Contains(flags, "-idle") {
			return true
		}
	}
	return slices.ContainsFunc(argv, func(s string) bool { return strings.TrimSpace(s) == strings.TrimSpace(runner.AgentIdleScript) })
}
