package cli

import (
	"context"
	"io"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/supervise"
)

// follow runs the group, and the command of -exec beside it.
func (r *run) follow(ctx context.Context, group *supervise.Group) int {
	if r.options.exec == "" {
		return exitCode(group.Run())
	}
	type end struct {
		code int
		ran  bool
	}
	ended := make(chan end, 1)
	over := make(chan struct{})
	go func() {
		code, ran := r.exec(ctx, group, over)
		ended <- end{code, ran}
		if ran {
			group.Stop("Stopping, because the command of -exec has ended")
		}
	}()
	tasks := exitCode(group.Run())
	close(over)
	if e := <-ended; e.ran {
		return shown(e.code)
	}
	return max(tasks, exitFailed)
}

// exec runs the command of -exec once its task runs, and not beyond over. ran
// is false when the task never did.
func (r *run) exec(ctx context.Context, group *supervise.Group, over <-chan struct{}) (code int, ran bool) {
	name := execName(r.options.exec)
	if err := group.AwaitRunning(ctx, r.options.exec); err != nil {
		r.out.event(name, "Not started: %v", err)
		return exitFailed, false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-over:
			cancel()
		case <-ctx.Done():
		}
	}()
	stdout, stderr := r.out.stdout(name), r.out.stderr(name)
	var stdin io.Reader
	if r.options.input {
		stdin = r.env.Stdin
	}
	code, err := r.back.exec(ctx, r.options.exec, r.options.argv, stdin, stdout, stderr)
	stdout.Flush()
	stderr.Flush()
	if err != nil {
		r.out.event(name, "Failed: %v", err)
		return exitFailed, true
	}
	r.out.event(name, "Terminated: exit code %d", code)
	return code, true
}

// exitCode is the first that is not zero, leaving out tasks that were stopped
// because of others.
func exitCode(results []supervise.Result) int {
	for _, res := range results {
		code := res.Exit.Code
		if code == 0 && (res.Err != nil || !res.Exit.Success()) {
			code = exitFailed
		}
		if code != 0 && !res.Victim {
			return shown(code)
		}
	}
	return exitOK
}

// shown is an exit code as the system can show it, in a byte, without turning
// a failure into a success.
func shown(code int) int {
	if low := code & 0xff; low != 0 || code == 0 {
		return low
	}
	return exitFailed
}
