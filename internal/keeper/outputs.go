package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Outputs carries the outputs of this process's tasks through the keeper and
// minds them: when the keeper dies, or an attach ends under a living task, it
// takes them up again by itself. It also holds a second write end of every log
// FIFO, so that the death of the keeper alone ends no log.
type Outputs struct {
	client *Client
	from   runner.OutputReader
	// alive reports whether a sandbox's main process still runs.
	alive func(ctx context.Context, ref string) (bool, error)

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu    sync.Mutex
	tasks map[string]*minded
}

// minded is one output being looked after.
type minded struct {
	task   Task
	ref    string
	guard  [streams]*fifo
	cancel context.CancelFunc
	done   chan struct{} // closed when all there was has been delivered
}

// NewOutputs returns Outputs over a client. alive must give an error when the
// substrate cannot be asked, and false only for a process known to have ended.
func NewOutputs(c *Client, from runner.OutputReader, alive func(ctx context.Context, ref string) (bool, error)) *Outputs {
	ctx, cancel := context.WithCancel(context.Background())
	return &Outputs{client: c, from: from, alive: alive, ctx: ctx, stop: cancel, tasks: map[string]*minded{}}
}

// Sink hands the output of the sandbox ref to the keeper when it starts.
func (o *Outputs) Sink(t Task, ref string) runner.OutputSink { return outputsSink{o, t, ref} }

type outputsSink struct {
	o   *Outputs
	t   Task
	ref string
}

func (s outputsSink) Follow(ctx context.Context, ref string, stream runner.OutputStream) error {
	if err := s.o.client.Sink(s.t).Follow(ctx, ref, stream); err != nil {
		return err
	}
	s.o.mind(s.t, s.ref)
	return nil
}

// Resume takes an output up again after a restart of this process, and minds
// it. It returns what is lost for good; see Client.Resume.
func (o *Outputs) Resume(ctx context.Context, t Task, ref string) (int64, error) {
	lost, err := o.resume(ctx, t, ref, false)
	if err != nil {
		return 0, err
	}
	o.mind(t, ref)
	return lost, nil
}

func (o *Outputs) resume(ctx context.Context, t Task, ref string, again bool) (int64, error) {
	alive, err := o.alive(ctx, ref)
	if err != nil {
		return 0, err
	}
	return o.client.resume(ctx, t, ref, alive, again, o.from)
}

// Drain waits until everything the main process printed has been delivered.
// Call it after the process has ended; an output that is not minded is nil.
func (o *Outputs) Drain(ctx context.Context, id string) error {
	m := o.get(id)
	if m == nil {
		return nil
	}
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("output not delivered: %w", ctx.Err())
	}
}

// flushLimit is how long Forget lets the rest of an output flow out.
const flushLimit = 2 * time.Second

// Forget closes an output's log files. One that is not known is nil.
func (o *Outputs) Forget(id string) error {
	o.mu.Lock()
	m := o.tasks[id]
	delete(o.tasks, id)
	o.mu.Unlock()
	if m == nil {
		return nil
	}
	m.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit+5*time.Second)
	defer cancel()
	err := o.client.Finish(ctx, m.task, flushLimit)
	for _, g := range m.guard {
		err = errors.Join(err, g.close())
	}
	return err
}

// Close stops minding. The keeper goes on with every output it has.
func (o *Outputs) Close() {
	o.stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.tasks {
		for _, g := range m.guard {
			g.close()
		}
	}
}

func (o *Outputs) get(id string) *minded {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tasks[id]
}

// mind starts to look after an output, once.
func (o *Outputs) mind(t Task, ref string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tasks[t.ID] != nil {
		return
	}
	ctx, cancel := context.WithCancel(o.ctx)
	m := &minded{task: t, ref: ref, cancel: cancel, done: make(chan struct{}),
		guard: [streams]*fifo{{path: t.Stdout}, {path: t.Stderr}}}
	o.tasks[t.ID] = m
	for _, g := range m.guard {
		go g.hold(ctx) // what cannot be opened the keeper complains of
	}
	go o.watch(ctx, m)
}

// watch waits for the end of an output and takes it up again where it ended
// too early.
func (o *Outputs) watch(ctx context.Context, m *minded) {
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, time.Minute) {
		st, err := o.client.Wait(ctx, m.task.ID)
		if err == nil && st.State == Ended && o.over(ctx, m.ref) {
			close(m.done)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, ErrGone) {
			o.client.Log.Warn("the output keeper", "task", m.task.ID, "error", err)
		}
		lost, err := o.resume(ctx, m.task, m.ref, st.State == Ended)
		switch {
		case err != nil && ctx.Err() == nil:
			o.client.Log.Warn("output could not be taken up again", "task", m.task.ID, "error", err)
		case lost != 0:
			o.client.Log.Warn("output was lost", "task", m.task.ID, "bytes", lost)
		}
		if err == nil && st.State != Ended {
			pause = time.Second
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// over reports whether the main process has ended. Its output comes to an end
// a moment before the engine says so.
func (o *Outputs) over(ctx context.Context, ref string) bool {
	for range 30 {
		if alive, err := o.alive(ctx, ref); err == nil && !alive {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}
