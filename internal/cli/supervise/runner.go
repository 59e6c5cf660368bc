package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// runner brings one task to its end.
type runner struct {
	g        *Group
	task     jobfile.Task
	launched bool // only used by Group.Run's goroutine

	ready   chan struct{} // closed when the tasks after this one may start
	running chan struct{} // closed when it first runs
	done    chan struct{} // closed at its end; result may be read then
	result  Result
	asked   chan request // holds what was asked for of the current run
	doomed  string       // why it is not to run again; only used by run's goroutine

	onceReady, onceRunning sync.Once
}

func newRunner(g *Group, t jobfile.Task) *runner {
	return &runner{
		g: g, task: t, result: Result{Task: t.Name},
		ready: make(chan struct{}), running: make(chan struct{}), done: make(chan struct{}),
		asked: make(chan request, 1),
	}
}

// request is a wish that a running task be ended and started anew.
type request struct {
	why     string
	failure bool // it counts as the restart policy counts a failure
	final   bool // it is not started anew, and has failed
}

// ask wishes for an end. One wish at a time is kept, and none beyond the run
// it was meant for: what comes after it was started with what is true now.
func (r *runner) ask(q request) {
	select {
	case r.asked <- q:
	default:
	}
}

// hook is the phase the task belongs to; "" is that of the main tasks.
func (r *runner) hook() string {
	if r.task.Lifecycle == nil {
		return ""
	}
	return r.task.Lifecycle.Hook
}

func (r *runner) event(format string, args ...any) {
	r.g.Event(r.task.Name, fmt.Sprintf(format, args...))
}

// run starts the task until it needs no more starts, or stop ends.
func (r *runner) run(stop context.Context) {
	defer close(r.done)
	policy := newRestarter(r.task, r.g.Batch)
	for stop.Err() == nil {
		recoverable := true
		exit, again, err := r.once(stop, &recoverable)
		r.result.Exit, r.result.Err = exit, err
		if stop.Err() != nil {
			break
		}
		if r.doomed != "" {
			r.finish(next{failed: true, why: r.doomed})
			return
		}
		if again {
			r.event("Restarting")
			continue
		}
		n := policy.decide(err == nil && exit.Success(), recoverable)
		if !n.restart {
			r.finish(n)
			return
		}
		r.event("Restarting in %s: %s", n.wait, n.why)
		select {
		case <-time.After(n.wait):
		case <-stop.Done():
		}
	}
	r.result.Victim = !r.g.byUser()
}

// finish ends a task that is not restarted, with what follows for the others.
func (r *runner) finish(n next) {
	r.result.Failed = n.failed
	switch {
	case n.failed:
		r.event("Failed: %s", n.why)
		r.g.endOthers(r.task.Name + " failed")
	case r.task.Leader:
		r.g.endOthers("their leader " + r.task.Name + " ended")
	}
	if !n.failed {
		r.onceReady.Do(func() { close(r.ready) })
	}
}

// once runs the task one time. recoverable is cleared when it could not be
// started and never will; again is set when the run was ended for another one
// that the restart policy has no say in.
func (r *runner) once(stop context.Context, recoverable *bool) (exit Exit, again bool, err error) {
	select {
	case <-r.asked: // meant for the run before
	default:
	}
	p, err := r.g.Start(r.g.killed, r.task)
	if err != nil {
		*recoverable = r.g.Recoverable(err)
		r.event("Start failed: %v", err)
		return Exit{}, false, fmt.Errorf("start task %s: %w", r.task.Name, err)
	}
	r.event("Started")
	r.onceRunning.Do(func() { close(r.running) })
	if r.hook() != "prestart" || r.task.Lifecycle.Sidecar {
		r.onceReady.Do(func() { close(r.ready) })
	}
	exit, again, err = r.wait(stop, p)
	if err != nil {
		r.event("Lost: %v", err)
	} else {
		r.event("Terminated: %v", exit)
	}
	return exit, again, err
}

// end is what Wait returned.
type end struct {
	exit Exit
	err  error
}

// wait returns when the process has ended, by itself or because it had to. See
// once for again.
func (r *runner) wait(stop context.Context, p Process) (exit Exit, again bool, err error) {
	ended := make(chan end, 1)
	go func() {
		exit, err := p.Wait(r.g.base)
		ended <- end{exit, err}
	}()
	select {
	case e := <-ended:
		return e.exit, false, e.err
	case q := <-r.asked:
		if q.final {
			r.doomed = q.why
			break
		}
		r.event("Restart signaled: %s", q.why)
		again = !q.failure
	case <-stop.Done():
	}
	e := r.stopOrKill(p, ended)
	return e.exit, again, e.err
}

// stopOrKill makes a process end, in its own time if that is possible.
func (r *runner) stopOrKill(p Process, ended <-chan end) end {
	if e, ok := r.stop(p, ended); ok {
		return e
	}
	bounded, cancel := context.WithTimeout(r.g.base, patience)
	defer cancel()
	if err := p.Kill(bounded); err != nil {
		r.event("Kill failed: %v", err)
	}
	select {
	case e := <-ended:
		return e
	case <-bounded.Done():
		return end{err: errors.New("its end was not reported")}
	}
}

// stop lets the process end in its own time. It returns false when that failed
// or took until Kill was called.
func (r *runner) stop(p Process, ended <-chan end) (end, bool) {
	if r.g.killed.Err() != nil {
		return end{}, false
	}
	r.event("Killing")
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop(r.g.killed) }()
	var late <-chan time.Time
	for {
		select {
		case e := <-ended:
			return e, true
		case err := <-stopped:
			if err != nil && r.g.killed.Err() != nil {
				return end{}, false // cut short by the kill, which is no failure
			}
			if err != nil {
				r.event("Stop failed: %v", err)
				return end{}, false
			}
			stopped, late = nil, time.After(patience) // its end is on its way
		case <-late:
			return end{}, false
		case <-r.g.killed.Done():
			return end{}, false
		}
	}
}
