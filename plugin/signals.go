package plugin

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// signalName is a signal's full name. A job may leave SIG out and write small
// letters; "" stays, for the sandbox's own stop signal. An unknown name is an
// error, never a guess.
func signalName(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	name := strings.ToUpper(s)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if unix.SignalNum(name) == 0 {
		return "", fmt.Errorf("signal %q: %w: no such signal; write a name such as SIGTERM, SIGHUP or SIGUSR1", s, runner.ErrInvalid)
	}
	return name, nil
}

// endsNone reports whether a signal, by its full name, never reaches the process
// of a sandbox.
func endsNone(signal string) bool {
	return freezes(signal) || signal == "SIGCONT" || runner.InitKeeps(unix.SignalNum(signal))
}

// freezes reports whether a signal, by its full name, freezes the sandbox
// instead of reaching its process.
func freezes(signal string) bool { return signal == "SIGSTOP" || signal == "SIGTSTP" }
