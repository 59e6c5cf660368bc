package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

// started is a task that was prepared, which its first start does.
func (b *pluginBackend) started(name string) (*host.Task, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if task := b.tasks[name]; task != nil {
		return task, nil
	}
	return nil, fmt.Errorf("task %s does not run", name)
}

func (b *pluginBackend) exec(ctx context.Context, name string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	task, err := b.started(name)
	if err != nil {
		return 0, err
	}
	exit, err := task.Exec(ctx, host.ExecRequest{Command: argv, Stdin: stdin, Stdout: stdout, Stderr: stderr})
	if err != nil {
		return 0, &plainError{err}
	}
	return exit.ExitCode, nil
}

func (b *pluginBackend) signal(ctx context.Context, name, signal string) error {
	task, err := b.started(name)
	if err != nil {
		return err
	}
	if err := task.Signal(ctx, signal); err != nil {
		return &plainError{err}
	}
	return nil
}

// check runs a command as a client runs the script of a check: not streamed, and
// with nothing but the driver to end it in time.
func (b *pluginBackend) check(ctx context.Context, name string, argv []string, timeout time.Duration) (int, string, error) {
	task, err := b.started(name)
	if err != nil {
		return 0, "", err
	}
	r, err := b.plugin.ExecTask(ctx, task.ID(), argv, timeout)
	if err != nil {
		return 0, "", &plainError{err}
	}
	output := string(r.Stdout)
	if strings.TrimSpace(output) == "" {
		output = string(r.Stderr)
	}
	return r.Exit.ExitCode, output, nil
}

func (b *pluginBackend) known(name string) map[string]string {
	p := b.spec.placement
	node := p.node.Node
	node.Attributes = b.plugin.NodeAttributes()
	known := facts(node)
	if task, err := b.started(name); err == nil {
		maps.Copy(known, task.Env())
	} else {
		maps.Copy(known, taskenv.Build(node, p.environment(jobfile.Task{}), taskenv.ImageDirs))
	}
	return known
}
