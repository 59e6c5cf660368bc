package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Wait blocks until the agent has exited. A main process is found again by its
// container, also by another process of this program than the one that started
// it; an agent started by Exec in an idle sandbox is known to that one alone
// (ask AgentStatus after a restart). An engine that cannot be asked is asked
// again, for as long as ctx allows.
func (r *Runner) Wait(ctx context.Context, ref string) (int, error) {
	if a := r.use.agents.latest(ref); a != nil {
		return r.waitAgent(ctx, ref, a)
	}
	c, err := r.lookUntilAnswered(ctx, ref)
	if err != nil {
		return 0, err
	}
	if c.State.Running && idles(c.Config) {
		return 0, fmt.Errorf("wait for %s: %w: it idles, and no agent was started in it by this process",
			ref, runner.ErrPrecondition)
	}
	return r.waitMain(ctx, ref)
}

// waitMain blocks until the main process is down. Only a state that the engine
// reports is an exit: no error of a call is one.
func (r *Runner) waitMain(ctx context.Context, ref string) (int, error) {
	var pause backoff
	told := false // a wait call has said that it ended with 0
	for away := false; ; {
		c, err := r.lookUntilAnswered(ctx, ref)
		switch {
		case told && errors.Is(err, runner.ErrNotFound):
			return 0, nil // removed since
		case err != nil:
			return 0, err
		case !started(c.State):
			return 0, notRunning("wait for", ref, c.State)
		case !c.State.Running:
			if away && c.State.ExitCode == codeUnseen {
				r.use.unseen.add(ref)
			}
			return c.State.ExitCode, nil
		}
		asked := time.Now()
		code, err := r.waitOnce(ctx, ref)
		switch {
		case err == nil && code != 0:
			return code, nil
		case err == nil && !told:
			told = true // an answer that says nothing reads as 0, too: the state tells
			continue
		}
		told, away = false, true
		if time.Since(asked) > maxPause {
			pause.reset()
		}
		if err := pause.sleep(ctx); err != nil {
			return 0, err
		}
	}
}

// waitOnce is one wait call; its error says nothing about the sandbox.
func (r *Runner) waitOnce(ctx context.Context, ref string) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, failed := r.api.ContainerWait(ctx, ref, container.WaitConditionNotRunning)
	select {
	case w := <-done:
		if w.Error != nil {
			return 0, errors.New(engineText(w.Error.Message))
		}
		return int(w.StatusCode), nil
	case err := <-failed:
		return 0, err
	case <-ctx.Done():
	}
	// One of the two is still sent to, and its sender waits for a reader.
	select {
	case <-done:
	case <-failed:
	}
	return 0, ctx.Err()
}

// lookUntilAnswered inspects until the engine answers: with the container, or
// with the word that there is none of ours (ErrNotFound, errForeign).
func (r *Runner) lookUntilAnswered(ctx context.Context, ref string) (container.InspectResponse, error) {
	var pause backoff
	for {
		c, err := r.look(ctx, ref)
		if err == nil || errors.Is(err, runner.ErrNotFound) || errors.Is(err, errForeign) {
			return c, err
		}
		if ctx.Err() == nil && pause.tries == warnAfter {
			r.opts.Log.Warn("engine cannot be asked about a sandbox; still trying", "ref", ref, "error", err)
		}
		if serr := pause.sleep(ctx); serr != nil {
			return c, errors.Join(serr, err)
		}
	}
}

const (
	minPause  = 50 * time.Millisecond
	maxPause  = 2 * time.Second
	warnAfter = 5 // tries, hence some seconds
)

// backoff spaces tries: 50 ms at first, doubling up to 2 s.
type backoff struct{ tries int }

func (b *backoff) reset() { b.tries = 0 }

func (b *backoff) sleep(ctx context.Context) error {
	d := min(minPause<<min(b.tries, 10), maxPause)
	b.tries++
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
