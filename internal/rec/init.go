package rec

import "syscall"

func runInit(args []string) int {
	s := catch()
	a, err := parseInit(args)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	// Before anything of the image's runs: the CA's way into the system's store
	// is a program of the image's, too.
	if err := harden(); err != nil {
		return fail(exitNotExecutable, "init: %v", err)
	}
	makeThreads()
	placeCA(a.onlyStages())
	if a.gate != "" {
		if code, open := awaitGate(a.gate, s); !open {
			return code
		}
	}
	if a.stages != "" {
		if code := runStages(s, a.stages); code != 0 {
			return code
		}
	}
	switch {
	case a.idle:
		return idle(s)
	case a.argv == nil:
		return 0
	}
	attr := ownSession()
	if a.tty {
		attr = onTerminal()
	}
	pid, serr := start(a.argv, inherited, attr)
	if serr != nil {
		return fail(serr.code, "%v", serr)
	}
	return supervise(pid, pid, s, nil)
}

// idle reaps until it is told to stop. Every signal an image may name as its
// stop signal for a clean end counts.
func idle(s *signals) int {
	for {
		select {
		case <-s.child:
			reap(0)
		case sig := <-s.forward:
			switch sig {
			case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
				return 0
			}
		}
	}
}
