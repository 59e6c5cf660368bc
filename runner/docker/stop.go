package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// killWait is how long a process may take to be down after SIGKILL. It
	// exceeds the ten seconds that an engine itself waits in its kill call.
	killWait = 15 * time.Second
	// killTries bounds how often SIGKILL is sent.
	killTries = 3
)

var _ runner.Stopper = (*Runner)(nil)

// StopProcess ends the main process and keeps the sandbox. signal "" is the
// container's stop signal; a timeout of zero kills at once. A sandbox that is
// down already, or gone, is nil. An unknown signal is ErrInvalid.
//
// A frozen sandbox is thawed before it is signalled: on some runtimes it could
// otherwise not be killed at all. Its sidecar ends with it.
func (r *Runner) StopProcess(ctx context.Context, ref, signal string, timeout time.Duration) error {
	return r.stopProcess(ctx, ref, signal, timeout, true)
}

// stopProcess is StopProcess; one that is not forGood leaves the sidecar alone.
func (r *Runner) stopProcess(ctx context.Context, ref, signal string, timeout time.Duration, forGood bool) error {
	sig, err := stopSignal(signal)
	if err != nil {
		return err
	}
	c, err := r.look(ctx, ref)
	switch {
	case errors.Is(err, runner.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !c.State.Running:
		return nil
	}
	if forGood {
		defer r.sidecarFollows(ctx, ref, c)()
	}
	if sig == "" {
		// An image may name what no job may: it is the engine's to judge.
		sig = cmp.Or(c.Config.StopSignal, "SIGTERM")
	}
	if timeout > 0 {
		down, err := r.endWithin(ctx, ref, sig, timeout)
		switch {
		case down:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("stop %s: %w", ref, ctx.Err())
		case err != nil:
			r.opts.Log.Warn("stop signal refused; killing", "ref", ref, "signal", sig, "error", err)
		}
	}
	return r.kill(ctx, ref)
}

// kill ends the main process with SIGKILL.
func (r *Runner) kill(ctx context.Context, ref string) error {
	var pause backoff
	for try := 1; ; try++ {
		down, err := r.endWithin(ctx, ref, unix.SignalName(syscall.SIGKILL), killWait)
		switch {
		case down:
			return nil
		case err == nil:
			err = fmt.Errorf("%w: it still runs after SIGKILL", runner.ErrUnavailable)
		}
		if try == killTries || pause.sleep(ctx) != nil {
			return fmt.Errorf("stop %s: %w", ref, err)
		}
	}
}

// endWithin thaws the main process, signals it, and says whether it was down
// within the timeout.
func (r *Runner) endWithin(ctx context.Context, ref, sig string, timeout time.Duration) (down bool, err error) {
	if err := r.thawAndSignal(ctx, ref, sig); err != nil {
		// The process may have ended in between, or the engine may have
		// signalled it and then failed to see its end: what counts is the state.
		c, lerr := r.look(ctx, ref)
		gone := errors.Is(lerr, runner.ErrNotFound) || lerr == nil && !c.State.Running
		return gone, err
	}
	wctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err = r.waitMain(wctx, ref)
	if err == nil || errors.Is(err, runner.ErrNotFound) {
		return true, nil
	}
	return false, ctx.Err()
}

func (r *Runner) thawAndSignal(ctx context.Context, ref, sig string) error {
	if err := r.Unpause(ctx, ref); err != nil {
		return err
	}
	ctx, cancel := call(ctx)
	defer cancel()
	return refused("signal "+ref, r.api.ContainerKill(ctx, ref, sig))
}

// stopSignal checks the signal a stop is asked for; "" stays "".
func stopSignal(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	sig, err := signalNamed(name)
	if err != nil {
		return "", err
	}
	switch sig {
	case syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGCONT:
		return "", fmt.Errorf("stop signal %q: %w: it suspends or resumes a sandbox and ends none; use SIGTERM or SIGINT",
			name, runner.ErrInvalid)
	}
	if runner.InitKeeps(sig) {
		return "", fmt.Errorf("stop signal %q: %w: the sandbox's init keeps it to itself; use SIGTERM or SIGINT", name, runner.ErrInvalid)
	}
	return unix.SignalName(sig), nil
}
