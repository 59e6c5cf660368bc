package runnertest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Options is what a Fake's host offers. The zero value is a healthy one.
type Options struct {
	// Classes that work here; nil is CC1 and CC2.
	Classes []types.ConfinementClass
	// Programs by the name they are called with, beside true, false, echo,
	// cat, sleep, idle, a small sh, and exit, which takes its code as argument.
	Programs map[string]Program
	// Main runs where a main process has no command, and stands for the
	// image's own; nil is Idle.
	Main Program
	// Usage answers for a sandbox's resource use; nil reports a little of everything.
	Usage func(ref string) runner.Usage
	// Findings answers probes; nil is healthy with Classes.
	Findings func() runner.Findings
	// Grace is what StopSandbox waits before it kills; 0 is 10 s.
	Grace time.Duration
}

// Call is one verb a Fake was asked for. Ref is the sandbox's, or the image,
// volume or run it was about.
type Call struct {
	Op  string
	Ref string
}

// Fake is a runner in memory. It is safe for concurrent use.
type Fake struct {
	opts     Options
	programs map[string]Program

	mu        sync.Mutex
	sandboxes map[string]*sandbox
	images    map[string]bool
	volumes   map[string]map[string]string // name to labels
	execs     int                          // ids handed out
	calls     []Call
	fault     func(ctx context.Context, op, ref string) error
}

// New makes a Fake without sandboxes.
func New(o Options) *Fake {
	if o.Classes == nil {
		o.Classes = []types.ConfinementClass{types.CC1, types.CC2}
	}
	if o.Main == nil {
		o.Main = Idle
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	f := &Fake{
		opts:      o,
		programs:  builtin(),
		sandboxes: map[string]*sandbox{},
		images:    map[string]bool{},
		volumes:   map[string]map[string]string{},
	}
	maps.Copy(f.programs, o.Programs)
	return f
}

// SetFault installs a function that is asked before every verb, with the
// method's name and what the call is about. Its error is the verb's, and
// nothing happens; it may block until ctx ends, as an engine that hangs does.
// nil takes the fault away.
func (f *Fake) SetFault(fault func(ctx context.Context, op, ref string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Calls lists the verbs asked for so far, those that failed included.
func (f *Fake) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// enter notes a call and lets the fault have its say.
func (f *Fake) enter(ctx context.Context, op, ref string) error {
	f.mu.Lock()
	f.calls = append(f.calls, Call{op, ref})
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, op, ref); err != nil {
			return fmt.Errorf("%s %s: %w", op, ref, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w: %w", op, ref, runner.ErrUnavailable, err)
	}
	return nil
}

// find looks a sandbox up.
func (f *Fake) find(ref string) (*sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sandboxes[ref]
	if s == nil {
		return nil, fmt.Errorf("sandbox %q: %w", ref, runner.ErrNotFound)
	}
	return s, nil
}

// begin is enter and find.
func (f *Fake) begin(ctx context.Context, op, ref string) (*sandbox, error) {
	if err := f.enter(ctx, op, ref); err != nil {
		return nil, err
	}
	return f.find(ref)
}
