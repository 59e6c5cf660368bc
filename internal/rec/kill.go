package rec

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopWait bounds the wait for a wrapper to stand still.
const stopWait = 200 * time.Millisecond

func runKill(args []string) int {
	sig := syscall.SIGKILL
	if len(args) >= 2 && args[0] == "-s" {
		var err error
		if sig, err = parseSignal(args[1]); err != nil {
			return fail(exitUsage, "kill: %v", err)
		}
		args = args[2:]
	}
	if len(args) != 1 || args[0] == "" || strings.HasPrefix(args[0], "-") {
		return fail(exitUsage, "kill: [-s SIG] ID is needed")
	}
	if err := killExec(args[0], sig); err != nil {
		return fail(1, "kill %s: %v", args[0], err)
	}
	return 0
}

// killExec signals the process groups of every exec of that id. None is
// success: what should be gone is gone.
func killExec(id string, sig syscall.Signal) error {
	table, err := processes()
	if err != nil {
		return err
	}
	var errs []error
	for _, wrapper := range execsOf(table, id) {
		if sig != syscall.SIGKILL {
			errs = append(errs, signalChildren(wrapper, sig))
			continue
		}
		// Stopped first: a wrapper about to start its command would otherwise
		// be gone before the command is there to be found.
		syscall.Kill(wrapper, syscall.SIGSTOP)
		awaitStopped(wrapper)
		errs = append(errs, signalChildren(wrapper, sig), signal0(wrapper, sig))
	}
	return errors.Join(errs...)
}

// signalChildren signals the process group of each child of pid.
func signalChildren(pid int, sig syscall.Signal) error {
	table, err := processes()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range table {
		if p.parent != pid {
			continue
		}
		target := p.pid
		if p.group == p.pid { // else it has not made its own group yet
			target = -p.pid
		}
		errs = append(errs, signal0(target, sig))
	}
	return errors.Join(errs...)
}

// signal0 is kill, where a target that is gone is no error.
func signal0(target int, sig syscall.Signal) error {
	if err := syscall.Kill(target, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func awaitStopped(pid int) {
	for end := time.Now().Add(stopWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if p, err := readProcess(pid); err != nil || p.state == 'T' || p.state == 'Z' {
			return
		}
	}
}

// parseSignal takes a number, or a name with or without SIG.
func parseSignal(s string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n <= 64 {
		return syscall.Signal(n), nil
	}
	if n := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")); n != 0 {
		return n, nil
	}
	return 0, errors.New("unknown signal " + strconv.Quote(s))
}
