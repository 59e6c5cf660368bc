package supervise

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// Exit says how a task ended.
type Exit struct {
	Code   int
	Signal int
	Err    string // what the driver has to say about it
}

// Success is Nomad's idea of success.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == 0 && e.Err == "" }

func (e Exit) String() string {
	s := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != 0 {
		s += fmt.Sprintf(", signal %d", e.Signal)
	}
	if e.Err != "" {
		s += ": " + e.Err
	}
	return s
}

// Process is one run of a task.
type Process interface {
	// Wait returns once the process has ended, its output is printed and nothing
	// is left of it.
	Wait(ctx context.Context) (Exit, error)
	// Stop asks it to end and makes it end after the task's kill timeout. It
	// returns when it has ended.
	Stop(ctx context.Context) error
	// Kill makes it end at once.
	Kill(ctx context.Context) error
}

// Result is the last that is known of a task.
type Result struct {
	Task string
	// Exit is that of the last run; Err is set when it could not be had, or
	// when the task could not be started.
	Exit   Exit
	Err    error
	Failed bool
	// Victim is set when the task was stopped because of another's end, so that
	// its exit says nothing.
	Victim bool
}

// Options say what is run, and how a task is started.
type Options struct {
	Tasks []jobfile.Task
	Batch bool
	// Start starts a task. It is called anew when the run before has ended.
	Start func(ctx context.Context, t jobfile.Task) (Process, error)
	// Recoverable tells whether an error of Start is worth another attempt.
	Recoverable func(error) bool
	// Event is told what happens to a task, or to the group when task is "". It
	// may be called concurrently.
	Event func(task, text string)
}

// Group is a task group on its way. Its methods may be called concurrently.
type Group struct {
	Options
	runners []*runner     // in the order of Tasks
	over    chan struct{} // closed when Run returns
	base    context.Context
	alive   context.Context // see Alive
	fade    context.CancelFunc
	killed  context.Context // base, and ended by Kill
	kill    context.CancelFunc

	mu    sync.Mutex
	phase context.CancelFunc // stops the tasks of the current phase
	user  bool               // Stop was called
}

// New makes a group. The context bounds everything that is done for it.
func New(ctx context.Context, o Options) *Group {
	g := &Group{Options: o, over: make(chan struct{}), base: ctx, phase: func() {}}
	g.alive, g.fade = context.WithCancel(ctx)
	g.killed, g.kill = context.WithCancel(ctx)
	for _, t := range o.Tasks {
		g.runners = append(g.runners, newRunner(g, t))
	}
	return g
}

// patience bounds the calls that end a process after its own time is up.
const patience = time.Minute

// Run runs the tasks and returns a result for each that was to be started, in
// the order of Tasks. It returns when all have ended, and is called once.
func (g *Group) Run() []Result {
	defer close(g.over)
	defer g.kill()
	stop := g.begin()
	if g.byUser() { // before there was anything to stop
		g.end("", true)
	}
	if await(stop, g.launch(stop, "prestart")) {
		mains := g.launch(stop, "")
		if await(stop, mains) {
			g.launch(stop, "poststart")
		}
		settle(mains)
	}
	g.end("", false)
	settle(g.runners)
	if g.killed.Err() == nil {
		settle(g.launch(g.begin(), "poststop"))
	}
	return g.results()
}

// Stop ends the tasks as Nomad would. Tasks of the poststop phase run after it;
// called during that phase it stops them, too.
func (g *Group) Stop(why string) { g.end(why, true) }

// Kill ends everything at once. Tasks of the poststop phase are not started.
func (g *Group) Kill() {
	g.kill()
	g.end("", true)
}

// Fail ends a task as Stop would, if it runs or is being started, and has it
// failed whatever its restart policy says; it returns at once.
func (g *Group) Fail(task, why string) {
	g.ask(task, request{why: why, final: true})
}

// Alive ends when the tasks are to end, but for those that clean up after them.
func (g *Group) Alive() context.Context { return g.alive }

// Restart ends a task as Stop would and starts it anew, if it runs or is being
// started; it returns at once. With failure the restart policy decides whether,
// when and how often, as after a failed check; without, it is at once and does
// not count, as after a changed template.
func (g *Group) Restart(task, why string, failure bool) {
	g.ask(task, request{why: why, failure: failure})
}

func (g *Group) ask(task string, q request) {
	for _, r := range g.runners {
		if r.task.Name == task {
			r.ask(q)
		}
	}
}

// AwaitRunning returns when a task runs for the first time. It is an error when
// it is over before that, or never gets there.
func (g *Group) AwaitRunning(ctx context.Context, task string) error {
	for _, r := range g.runners {
		if r.task.Name != task {
			continue
		}
		select {
		case <-r.running:
			return nil
		case <-r.done:
		case <-g.over:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-r.running: // and over by now
			return nil
		default:
			return fmt.Errorf("task %s never ran", task)
		}
	}
	return fmt.Errorf("there is no task %q", task)
}

// begin opens a phase: its context ends when the phase is to stop.
func (g *Group) begin() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	stop, cancel := context.WithCancel(g.base)
	g.phase = cancel
	return stop
}

// end stops the tasks of the current phase.
func (g *Group) end(why string, user bool) {
	g.mu.Lock()
	cancel := g.phase
	g.user = g.user || user
	g.mu.Unlock()
	g.fade()
	if why != "" {
		g.Event("", why)
	}
	cancel()
}

// endOthers stops the tasks of the current phase because of one of them.
func (g *Group) endOthers(why string) {
	if len(g.runners) == 1 {
		why = ""
	} else {
		why = "Stopping the other tasks, because " + why
	}
	g.end(why, false)
}

func (g *Group) byUser() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.user
}

// launch starts the runners of all tasks with a lifecycle hook.
func (g *Group) launch(stop context.Context, hook string) []*runner {
	var launched []*runner
	for _, r := range g.runners {
		if r.hook() == hook {
			r.launched = true
			launched = append(launched, r)
			go r.run(stop)
		}
	}
	return launched
}

// await waits until tasks are ready; it returns false when the phase stops first.
func await(stop context.Context, runners []*runner) bool {
	for _, r := range runners {
		select {
		case <-r.ready:
		case <-stop.Done():
			return false
		}
	}
	return stop.Err() == nil
}

// settle waits for the end of all that were launched.
func settle(runners []*runner) {
	for _, r := range runners {
		if r.launched {
			<-r.done
		}
	}
}

func (g *Group) results() []Result {
	var out []Result
	for _, r := range g.runners {
		if r.launched {
			out = append(out, r.result)
		}
	}
	return out
}
