package runnertest

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Program stands in for an executable. It runs until it returns its exit code
// and must return when ctx ends, which is what a kill looks like to it.
type Program func(ctx context.Context, p *Process) int

// Process is what a Program sees of itself.
type Process struct {
	Argv []string
	// Env is "K=V", sorted.
	Env []string
	TTY bool
	// Stdin reads io.EOF at once where nothing is connected.
	Stdin io.Reader
	// Stdout and Stderr block while nobody reads, and while the sandbox is
	// frozen. Once the process has ended they fail.
	Stdout, Stderr io.Writer

	mu     sync.Mutex
	traps  map[string]chan string
	exit   runner.Exit // set before done is closed
	ended  bool
	sizes  []string      // terminal sizes seen, "120x40"
	done   chan struct{} // closed at the end, after the output's end
	cancel func()        // ends the program's context
	close  func()        // ends the process's streams
}

// Trap delivers the named signals to the program instead of their default
// action, which for most is to end the process with 128+n.
func (p *Process) Trap(names ...string) <-chan string {
	c := make(chan string, 16)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range names {
		p.traps[n] = c
	}
	return c
}

// Sizes lists the sizes the process's terminal was given, as "120x40".
func (p *Process) Sizes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.sizes...)
}

func (p *Process) resize(size string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = append(p.sizes, size)
}

// start runs prog, for as long as it likes: only ctx's values are kept.
// closeStreams ends what the process reads and writes.
func (p *Process) start(ctx context.Context, prog Program, closeStreams func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.traps, p.done, p.cancel, p.close = map[string]chan string{}, make(chan struct{}), cancel, closeStreams
	p.exit.Started = time.Now()
	go func() { p.end(runner.Exit{Code: prog(ctx, p)}) }()
}

// end records how the process ended. The first to say so is right.
func (p *Process) end(e runner.Exit) {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended = true
	e.Started, e.Finished = p.exit.Started, time.Now()
	p.exit = e
	p.mu.Unlock()
	p.cancel()
	p.close()
	close(p.done)
}

// alive reports whether the process runs.
func (p *Process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal delivers one by name, which the caller has checked.
func (p *Process) signal(name string) {
	p.mu.Lock()
	trap := p.traps[name]
	p.mu.Unlock()
	switch {
	case name == "SIGKILL":
	case trap != nil:
		select {
		case trap <- name:
		default: // as with the real ones, those not taken pile up to one
		}
		return
	case ignoredByDefault[name]:
		return
	}
	n := int(unix.SignalNum(name))
	p.end(runner.Exit{Code: 128 + n, Signal: n})
}

var ignoredByDefault = map[string]bool{"SIGCHLD": true, "SIGURG": true, "SIGWINCH": true, "SIGCONT": true}

// signalName brings "term", "TERM" and "SIGTERM" into the last form; "" when
// there is no such signal.
func signalName(s string) string {
	s = strings.ToUpper(s)
	if !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	if unix.SignalNum(s) == 0 {
		return ""
	}
	return s
}

// gate holds everything of a sandbox up while it is frozen.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while the sandbox runs
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// wait returns when the gate is open, or done is closed.
func (g *gate) wait(done <-chan struct{}) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	case <-done:
	}
}

// gated is a process's end of an output stream.
type gated struct {
	gate *gate
	done func() <-chan struct{}
	to   io.Writer
}

func (w gated) Write(b []byte) (int, error) {
	w.gate.wait(w.done())
	select {
	case <-w.done():
		return 0, io.ErrClosedPipe
	default:
		return w.to.Write(b)
	}
}
