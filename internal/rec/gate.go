package rec

import (
	"os"
	"syscall"
	"time"
)

const (
	// gatePoll paces the looks at the gate. It is short since a start waits
	// for it, and cheap since it ends with the start.
	gatePoll = 4 * time.Millisecond
	// gateTimeout is longer than whoever opens the gate tries to.
	gateTimeout = 3 * time.Minute
)

// awaitGate waits until the file at path has something in it: the container is
// started while what the command needs is still being made. A signal that would
// end the command ends the wait, with the code it would have given.
func awaitGate(path string, s *signals) (code int, open bool) {
	tick := time.NewTicker(gatePoll)
	defer tick.Stop()
	late := time.After(gateTimeout)
	for {
		b, err := os.ReadFile(path)
		if err != nil {
			return fail(exitNotExecutable, "gate: %v", err), false
		}
		if len(b) > 0 {
			return 0, true
		}
		select {
		case <-tick.C:
		case <-s.child:
			reap(0)
		case sig := <-s.forward:
			switch sig {
			case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
				return 128 + int(sig.(syscall.Signal)), false
			}
		case <-late:
			return fail(exitNotExecutable, "gate: the sandbox's proxy was not ready within %v", gateTimeout), false
		}
	}
}
