package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Exit codes with a meaning of their own.
const (
	codeSignal  = 128            // a process ended by signal n exits with 128+n
	codeKilled  = codeSignal + 9 // SIGKILL
	codeCrashed = 2              // a gVisor sentry that panics leaves this and no word
	codeUnseen  = 255            // an engine's word for an end that nobody saw
	lastCode    = codeSignal + int(lastSignal)
)

var _ runner.ExitReader = (*Runner)(nil)

// Exit tells how the main process ended. ErrPrecondition while it runs or when
// it has not been started; ErrNotFound when the sandbox is gone.
func (r *Runner) Exit(ctx context.Context, ref string) (runner.Exit, error) {
	c, err := r.look(ctx, ref)
	if err != nil {
		return runner.Exit{}, err
	}
	switch {
	case c.State.Running:
		return runner.Exit{}, fmt.Errorf("exit of %s: %w: it is running", ref, runner.ErrPrecondition)
	case !started(c.State):
		return runner.Exit{}, notRunning("exit of", ref, c.State)
	}
	silent := false
	if mayBeCrash(c.State, classOf(c)) {
		if silent, err = r.printedNothing(ctx, ref); err != nil {
			return runner.Exit{}, err
		}
	}
	if c.State.ExitCode != 0 && !c.State.OOMKilled {
		if at, ok := killedForMemory(c.ID); ok {
			c.State.OOMKilled = tellsOfTheEnd(at, c.State, classOf(c))
		}
	}
	e := exitOf(c.State, silent)
	if e.Err == nil && e.Code == codeUnseen && r.use.unseen.has(ref) {
		e.Err = errUnseen
	}
	return e, nil
}

// errUnseen: a newer containerd that was down when a process ended forgets it,
// and the engine then makes up a code that a task could also have chosen.
var errUnseen = fmt.Errorf("%w: the process ended while the engine was away, and %d is also the engine's word for an exit code that it does not know",
	runner.ErrUnavailable, codeUnseen)

// memoryKillEnds is how soon a process is noted as gone after the kernel killed
// it for memory, on a busy host.
const memoryKillEnds = 5 * time.Second

// tellsOfTheEnd says whether a kill for memory has to do with how a sandbox
// ended. The engine hears of kill and death from two places, and loses the kill
// when it comes second. One that the task has survived was a child's; one long
// before another kill has nothing to do with it.
func tellsOfTheEnd(kill time.Time, s *container.State, class types.ConfinementClass) bool {
	killed := s.ExitCode == codeKilled
	switch {
	case class == types.CC2:
		return killed // the sentry, and with it all there was
	case !killed:
		return true
	}
	return engineTime(s.FinishedAt).Sub(kill) < memoryKillEnds
}

// exitOf reads a state of exited. silentCrash says that mayBeCrash holds and
// nothing was ever printed.
func exitOf(s *container.State, silentCrash bool) runner.Exit {
	e := runner.Exit{
		Code:      s.ExitCode,
		OOMKilled: oomKilled(s),
		ChildOOM:  s.OOMKilled && !oomKilled(s),
		Started:   engineTime(s.StartedAt),
		Finished:  engineTime(s.FinishedAt),
	}
	if e.Finished.Before(e.Started) {
		e.Finished = e.Started // an engine may note the end of an instant program first
	}
	if s.ExitCode > codeSignal && s.ExitCode <= lastCode {
		// The engine keeps no signal; this is how shells and our own pid 1 say it.
		e.Signal = s.ExitCode - codeSignal
	}
	switch {
	case silentCrash:
		e.Err = fmt.Errorf("%w: exit code %d without a word of output is how a gVisor sentry dies; it is not the task's code",
			runner.ErrRuntimeCrashed, s.ExitCode)
	case s.Error != "":
		e.Err = errors.New(engineText(s.Error))
	}
	return e
}

// oomKilled says that the main process itself died of memory. The engine's
// flag stays set when a task survives the death of a child.
func oomKilled(s *container.State) bool { return s.OOMKilled && s.ExitCode == codeKilled }

// mayBeCrash picks the exits that look like a crash of the sandbox's own
// kernel, if nothing was printed.
func mayBeCrash(s *container.State, class types.ConfinementClass) bool {
	return class == types.CC2 && s.ExitCode == codeCrashed && !s.OOMKilled
}

func classOf(c container.InspectResponse) types.ConfinementClass {
	return types.ConfinementClass(c.Config.Labels[labelClass])
}

// printedNothing reports whether the engine's log of a sandbox is empty.
func (r *Runner) printedNothing(ctx context.Context, ref string) (bool, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	rc, err := r.api.ContainerLogs(ctx, ref, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "1"})
	if err != nil {
		return false, wrap("read the log of "+ref, err)
	}
	defer rc.Close()
	n, err := io.ReadFull(rc, make([]byte, 1))
	if n == 0 && errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, wrap("read the log of "+ref, err)
}

// started tells a process that has exited from one that never ran: both are not
// running, and both show an exit code.
func started(s *container.State) bool { return !engineTime(s.StartedAt).IsZero() }

// engineTime parses an engine's time; one it has not reached yet is zero.
func engineTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
