package rec

import (
	"os"
	"os/signal"
	"syscall"
)

// signals are those this process has caught since start-up, so that none is
// lost between our start and the command's.
type signals struct {
	forward chan os.Signal
	child   chan os.Signal
}

// catch takes over every signal that can be caught. SIGURG is the Go runtime's
// own, SIGPIPE is about our own writes.
func catch() *signals {
	s := &signals{forward: make(chan os.Signal, 128), child: make(chan os.Signal, 1)}
	signal.Notify(s.child, syscall.SIGCHLD)
	signal.Notify(s.forward, catchable()...)
	return s
}

func catchable() []os.Signal {
	var all []os.Signal
	for n := syscall.Signal(1); n <= 64; n++ {
		switch n {
		case syscall.SIGKILL, syscall.SIGSTOP: // cannot be caught
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE:
		case 32, 33, 34: // between threads, in C libraries and in the Go runtime
		default:
			all = append(all, n)
		}
	}
	return all
}

// forwardable: what the terminal tells a background writer is about us.
func forwardable(s os.Signal) bool { return s != syscall.SIGTTIN && s != syscall.SIGTTOU }

// supervise reaps every child, forwards signals to target (a pid, or minus a
// process group), and returns the exit code of pid as soon as it has ended.
// When abort is closed the target is killed.
//
// Reaping and signalling happen in this one loop, so a signal never goes to a
// pid that was reaped and given to someone else.
func supervise(pid, target int, s *signals, abort <-chan struct{}) int {
	return superviseTo(pid, func(sig syscall.Signal) { syscall.Kill(target, sig) }, s, abort)
}

// superviseTo is supervise for a target that send reaches.
func superviseTo(pid int, send func(syscall.Signal), s *signals, abort <-chan struct{}) int {
	for {
		select {
		case <-s.child:
			if code, done := reap(pid); done {
				return code
			}
		case sig := <-s.forward:
			if forwardable(sig) {
				send(sig.(syscall.Signal))
			}
		case <-abort:
			send(syscall.SIGKILL)
			abort = nil
		}
	}
}

// reap takes every ended child off the process table, and says whether pid was
// among them. A SIGCHLD stands for any number of ended children.
func reap(pid int) (code int, done bool) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil || got <= 0:
			return code, done
		case status.Stopped():
			if got == pid && status.StopSignal() == syscall.SIGTSTP {
				// Ctrl-Z: nobody here could ever continue it. Without us the
				// kernel would not have stopped a group nobody watches.
				syscall.Kill(-pid, syscall.SIGCONT)
			}
		case got == pid:
			code, done = exitCode(status), true
		}
	}
}

func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
