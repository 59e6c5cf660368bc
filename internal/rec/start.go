package rec

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// stdio are the descriptors a command gets as 0, 1 and 2.
type stdio [3]uintptr

var inherited = stdio{0, 1, 2}

// start runs argv and returns its pid. The command inherits the environment,
// the working directory and the three descriptors, and nothing else: not our
// signal mask, no ignored signals, no descriptor the engine left open.
func start(argv []string, fds stdio, attr *syscall.SysProcAttr) (int, *startError) {
	return startAs(&syscall.ProcAttr{Env: os.Environ(), Files: fds[:], Sys: attr}, argv)
}

// startAs is start with the directory and the environment of how.
func startAs(how *syscall.ProcAttr, argv []string) (int, *startError) {
	path, hasPath := os.LookupEnv("PATH")
	file, serr := lookPath(argv[0], path, hasPath)
	if serr != nil {
		return 0, serr
	}
	closeOnExec()

	// The child starts with the mask of the thread that forks it. Caught
	// signals are back at their default in it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var none, before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, &before); err == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	}
	pid, err := syscall.ForkExec(file, argv, how)
	if errors.Is(err, syscall.ENOENT) {
		// The file was there a moment ago: what is missing is its interpreter.
		return 0, &startError{argv[0], "its interpreter or loader is not in this image", exitNotExecutable}
	}
	if err != nil {
		return 0, asStartError(argv[0], err)
	}
	return pid, nil
}

// closeOnExec keeps every descriptor but 0, 1 and 2 from the next program.
func closeOnExec() {
	if unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	// Kernels before 5.11, and some that are not Linux.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// onTerminal places the command in the foreground of the terminal at
// descriptor 0, so that its keys and its size changes reach the command alone.
func onTerminal() *syscall.SysProcAttr {
	if _, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil {
		return &syscall.SysProcAttr{Foreground: true, Ctty: 0}
	}
	// Nobody's controlling terminal yet: a session of its own takes it.
	return &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
}

// ownSession is what engines give a main process without a terminal. Its
// process group is the one that kill ends.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}
