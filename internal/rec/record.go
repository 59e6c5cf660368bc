package rec

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/wardyn/nomad-driver-wardyn/internal/rec/castfile"
)

// runRecord runs a command and records its terminal, or its output where it has
// no terminal. Its code is the command's, whatever becomes of the recording.
func runRecord(args []string) int {
	s := catch()
	a, err := parseRecord(args)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	makeThreads()
	if err := os.MkdirAll(a.castDir, 0o750); err != nil {
		return unrecorded(a, s, err)
	}
	if isTerminal(0) {
		path, hasPath := os.LookupEnv("PATH")
		// asciinema would make a terminal for a command that is to have none.
		if program, serr := lookPath(a.asciinema, path, hasPath); serr == nil {
			return recordWithAsciinema(a, s, program)
		}
	}
	return recordHere(a, s)
}

// unrecorded runs the command all the same.
func unrecorded(a recordArgs, s *signals, why error) int {
	fail(0, "nothing is recorded: %v", why)
	pid, serr := start(a.argv, inherited, nil)
	if serr != nil {
		return fail(serr.code, "%v", serr)
	}
	return supervise(pid, pid, s, nil)
}

// recordHere is the recorder of our own.
func recordHere(a recordArgs, s *signals) int {
	size, terminal := windowSize(0)
	f, err := castfile.Create(a.file(), terminal, size.cols, size.rows, a.limit)
	if err != nil {
		return unrecorded(a, s, err)
	}
	end := a.deliver()
	var code int
	var serr *startError
	if terminal {
		code, serr = recordTerminal(a, s, f)
	} else {
		code, serr = recordPipes(a, s, f)
	}
	if err := f.Close(fmt.Sprintf("exit %d", code)); err != nil {
		fail(0, "not everything is recorded: %v", err)
	}
	end()
	if serr != nil {
		return fail(serr.code, "%v", serr)
	}
	return code
}

// recordPipes records both outputs on their way.
func recordPipes(a recordArgs, s *signals, f *castfile.File) (int, *startError) {
	p, err := newPumps(1, 2)
	if err != nil {
		return exitNotExecutable, &startError{a.argv[0], err.Error(), exitNotExecutable}
	}
	for i, each := range p.each {
		each.heard = func(b []byte) { f.Output(i, b) }
	}
	pid, serr := start(a.argv, stdio{0, p.writeEnd(0), p.writeEnd(1)}, nil)
	if serr != nil {
		return serr.code, serr
	}
	p.start()
	code := supervise(pid, pid, s, p.abort)
	if !p.drain() {
		return exitPipe, nil
	}
	return code, nil
}

// deliver begins to carry the recording out of the sandbox. What it gives back
// waits for the rest and tells of a failure.
func (a recordArgs) deliver() (end func()) {
	if a.delivery == nil {
		return a.copyOut
	}
	done, result := make(chan struct{}), make(chan error, 1)
	go func() { result <- a.delivery.Follow(a.file(), done) }()
	return func() {
		close(done)
		if err := <-result; err != nil {
			fail(0, "the recording is not delivered to its end: %v", err)
		}
	}
}

// copyOut copies the recording to a folder that others see.
func (a recordArgs) copyOut() {
	if a.outDir == "" {
		return
	}
	if err := copyFile(filepath.Join(a.outDir, a.run+".cast"), a.file()); err != nil {
		fail(0, "the recording is not delivered: %v", err)
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o640)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}
