package docker

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

var _ runner.Signaler = (*Runner)(nil)

// lastSignal is the highest of the classic signals. Real-time signals are left
// out: gVisor does not know them.
const lastSignal = syscall.SIGSYS

// Signal sends a signal to the main process. SIGSTOP, SIGTSTP and SIGCONT are
// never passed on: they would reach pid 1 alone while its children run on. They
// freeze and thaw the sandbox.
func (r *Runner) Signal(ctx context.Context, ref, name string) error {
	sig, err := signalNamed(name)
	if err != nil {
		return err
	}
	if runner.InitKeeps(sig) {
		return fmt.Errorf("signal %s: %w: the sandbox's init keeps it to itself; send it from inside, with a command", unix.SignalName(sig), runner.ErrInvalid)
	}
	switch sig {
	case syscall.SIGSTOP, syscall.SIGTSTP:
		return r.Pause(ctx, ref)
	case syscall.SIGCONT:
		return r.Unpause(ctx, ref)
	}
	c, err := r.look(ctx, ref)
	switch {
	case err != nil:
		return err
	case c.State.Paused:
		// Some runtimes would thaw it, others refuse.
		return frozen("signal", ref)
	case !c.State.Running:
		return notRunning("signal", ref, c.State)
	}
	cctx, cancel := call(ctx)
	defer cancel()
	return refused("signal "+ref, r.api.ContainerKill(cctx, ref, unix.SignalName(sig)))
}

// signalNamed finds a signal by its name, with or without SIG, in any case.
func signalNamed(name string) (syscall.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if sig := unix.SignalNum(full); sig > 0 && sig <= lastSignal {
		return sig, nil
	}
	return 0, fmt.Errorf("signal %q: %w: not a signal; use one of %s",
		engineText(name), runner.ErrInvalid, strings.Join(signalNames(), ", "))
}

func signalNames() []string {
	var names []string
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		if name := unix.SignalName(sig); name != "" {
			names = append(names, name)
		}
	}
	return names
}
