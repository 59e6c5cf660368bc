package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
)

// inheritedPipeGrace is how long the pipes of a dead plugin may stay open before somebody else
// must be holding them. A real client waits for ever.
const inheritedPipeGrace = 5 * time.Second

// process runs a plugin executable for go-plugin. It differs from go-plugin's own runner in
// two points: log lines that would end the client are held back and reported, and the end of
// the process is noticed even when a child of it keeps its pipes open.
type process struct {
	cmd      *exec.Cmd
	breaches *breachLog
	stdout   *os.File // read ends
	stderr   *os.File
	logs     *io.PipeReader // stderr without the lines held back
	drained  chan struct{}  // closed when stderr has ended
	exited   chan struct{}  // closed when the process has been waited for
	waitErr  error          // set before exited closes
	bound    bool           // dies with this process
}

var _ runner.Runner = (*process)(nil)

// newProcess prepares a plugin process. env is what go-plugin wants set; the socket folder it
// adds for runners of this kind is left out, since no Nomad client sets it.
func newProcess(o Options, env []string, breaches *breachLog) *process {
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Stdin = os.Stdin
	cmd.Env = o.Env
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	for _, kv := range env {
		if !strings.HasPrefix(kv, "PLUGIN_UNIX_SOCKET_DIR=") {
			cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], kv)
		}
	}
	return &process{
		cmd: cmd, breaches: breaches, drained: make(chan struct{}), exited: make(chan struct{}), bound: o.DieWithClient,
	}
}

func (p *process) Start(context.Context) error {
	stdoutW, err := p.openPipes()
	if err != nil {
		return err
	}
	stderrW := p.cmd.Stderr.(*os.File)
	err = p.startCommand()
	// The child has its own copies now, or never will.
	closeErr := errors.Join(stdoutW.Close(), stderrW.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.cmd.Path, err), p.stdout.Close(), p.stderr.Close())
	}
	logs, filtered := io.Pipe()
	p.logs = logs
	go p.filter(filtered)
	go p.reap()
	return closeErr
}

// startCommand starts the process. One that is to die with this process is
// bound to the thread that started it, which therefore stays.
func (p *process) startCommand() error {
	if !p.bound {
		return p.cmd.Start()
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			<-p.exited
		}
	}()
	return <-started
}

func (p *process) openPipes() (stdoutW *os.File, err error) {
	p.stdout, stdoutW, err = os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe for plugin output: %w", err)
	}
	stderrR, stderrW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pipe for plugin logs: %w", err), p.stdout.Close(), stdoutW.Close())
	}
	p.stderr = stderrR
	p.cmd.Stdout, p.cmd.Stderr = stdoutW, stderrW
	return stdoutW, nil
}

// reap waits for the process and then sees to it that its pipes end.
func (p *process) reap() {
	p.waitErr = p.cmd.Wait()
	close(p.exited)
	select {
	case <-p.drained:
	case <-time.After(inheritedPipeGrace):
		p.breaches.add(TrapInheritedPipe, "exit", "a child process still holds the plugin's standard error")
	}
	p.closePipes()
}

func (p *process) closePipes() {
	_ = p.stdout.Close() // both may be closed already, which is as good
	_ = p.stderr.Close()
}

// filter passes log lines on, without those that would end the reader.
func (p *process) filter(out *io.PipeWriter) {
	defer close(p.drained)
	defer out.Close()
	in := bufio.NewReaderSize(p.stderr, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if bad := wire.CheckLogLine(line); bad != nil {
			p.breaches.add(TrapLogLine, "log", bad.Error())
		} else if _, werr := out.Write(line); werr != nil {
			return // go-plugin has stopped reading
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (p *process) Wait(context.Context) error {
	<-p.exited
	return p.waitErr
}

func (p *process) Kill(context.Context) error { return p.kill() }

func (p *process) kill() error {
	if p.cmd.Process == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill plugin: %w", err)
	}
	return nil
}

func (p *process) Stdout() io.ReadCloser { return p.stdout }
func (p *process) Stderr() io.ReadCloser { return p.logs }
func (p *process) Name() string          { return p.cmd.Path }
func (p *process) ID() string            { return strconv.Itoa(p.pid()) }

func (p *process) pid() int {
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Diagnose adds to go-plugin's message about a bad first line.
func (p *process) Diagnose(context.Context) string {
	return "the first line on standard output must be the plugin handshake; is " + p.cmd.Path + " a Nomad plugin?"
}

func (p *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
