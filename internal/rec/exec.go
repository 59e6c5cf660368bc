package rec

import (
	"golang.org/x/sys/unix"
)

// exitPipe is the code of an exec whose reader has gone: 128+SIGPIPE.
const exitPipe = 141

func runExec(args []string) int {
	s := catch()
	a, err := parseExec(args)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	if err := harden(); err != nil {
		return fail(exitNotExecutable, "exec: %v", err)
	}
	makeThreads()
	if isTerminal(0) {
		return execOnTerminal(a, s)
	}
	return execPiped(a, s)
}

// execOnTerminal hands the terminal through: there is nothing to copy.
func execOnTerminal(a execArgs, s *signals) int {
	if a.cols > 0 && a.rows > 0 && sizeless(0) {
		// Before the program starts: some engines ignore the size asked for,
		// and a program that reads 0x0 at its start draws nothing. A size that
		// is there came from a resize since, and is the newer one.
		unix.IoctlSetWinsize(0, unix.TIOCSWINSZ, &unix.Winsize{Col: a.cols, Row: a.rows})
	}
	pid, serr := start(a.argv, inherited, onTerminal())
	if serr != nil {
		return fail(serr.code, "%v", serr)
	}
	return supervise(pid, -pid, s, nil)
}

// sizeless reports whether a terminal has not been given a size yet.
func sizeless(fd int) bool {
	w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	return err != nil || w.Col == 0 && w.Row == 0
}

// execPiped puts pipes of ours between the command and the engine's, so that
// this exec ends when the command does, whatever still holds its output.
func execPiped(a execArgs, s *signals) int {
	p, err := newPumps(1, 2)
	if err != nil {
		return fail(exitNotExecutable, "exec %s: %v", a.argv[0], err)
	}
	pid, serr := start(a.argv, stdio{0, p.writeEnd(0), p.writeEnd(1)}, ownSession())
	if serr != nil {
		return fail(serr.code, "%v", serr)
	}
	p.start()
	code := supervise(pid, -pid, s, p.abort)
	if !p.drain() {
		return exitPipe
	}
	return code
}
