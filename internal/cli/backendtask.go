package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/checks"
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
	id := task.ID()
	r, err := b.plugin.ExecTask(ctx, id, argv, timeout)
	if (err != nil || r.Exit.ExitCode > 1) && b.ended(ctx, id) {
		return 0, "", checks.ErrTaskEnded
	}
	if err != nil {
		return 0, "", &plainError{err}
	}
	output := string(r.Stdout)
	if strings.TrimSpace(output) == "" {
		output = string(r.Stderr)
	}
	return r.Exit.ExitCode, output, nil
}

// moment is what a driver is given to notice a task's end.
const moment = 500 * time.Millisecond

// ended tells whether a task has ended by now, so that a command in it failed.
func (b *pluginBackend) ended(ctx context.Context, id string) bool {
	select {
	case <-time.After(moment):
	case <-ctx.Done():
	}
	s, err := b.plugin.InspectTask(ctx, id)
	return err == nil && s.State == host.TaskExited
}

func (b *pluginBackend) known(name string) map[string]string {
	node := b.node()
	known := facts(node)
	if task, err := b.started(name); err == nil {
		maps.Copy(known, task.Env())
	} else {
		maps.Copy(known, taskenv.Build(node, b.spec.placement.environment(jobfile.Task{}), taskenv.ImageDirs))
	}
	return known
}
