package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host/allocdir"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/logmon"
)

const (
	defaultKillTimeout = 5 * time.Second
	maxKillTimeout     = 30 * time.Second
)

// Task is one task, driven as a task runner drives it. It may be started again after it has
// ended: directories stay, the id changes.
type Task struct {
	alloc  *Alloc
	spec   TaskSpec
	dir    *allocdir.Task
	stdout string // paths the driver writes to
	stderr string
	logs   []*logmon.Collector

	mu     sync.Mutex
	run    *run // nil before the first start
	usage  TaskUsage
	handle TaskHandle
	net    *NetworkOverride
}

// run is one life of the task.
type run struct {
	id   string
	done chan struct{} // closed when the task has ended and was destroyed
	exit ExitResult    // both set before done closes
	err  error
}

// Dir is the task's directory on the host.
func (t *Task) Dir() *allocdir.Task { return t.dir }

// ID is the id of the current or last run; empty before the first.
func (t *Task) ID() string {
	if r := t.current(); r != nil {
		return r.id
	}
	return ""
}

func (t *Task) current() *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run
}

// Handle is what a client stores of the current run.
func (t *Task) Handle() TaskHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handle
}

// Network is the address the driver gave the task, nil without one.
func (t *Task) Network() *NetworkOverride {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.net
}

// Usage is the latest sample; the zero value before the first.
func (t *Task) Usage() TaskUsage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.usage
}

// Start begins a new run: log collection, environment, configuration, StartTask. It returns
// when the driver has started the task. A plugin that dies meanwhile is started anew and asked
// once more with the same id.
func (t *Task) Start(ctx context.Context) error {
	if r := t.current(); r != nil && !isClosed(r.done) {
		return fmt.Errorf("task %s is running", r.id)
	}
	cfg, err := t.config(ctx)
	if err != nil {
		return err
	}
	if err := t.startLogs(); err != nil {
		return err
	}
	p := t.alloc.plugin
	handle, override, err := p.StartTask(ctx, cfg)
	if errors.Is(err, ErrPluginGone) {
		handle, override, err = p.StartTask(ctx, cfg)
	}
	if err != nil {
		t.abandonLogs()
		return err
	}
	t.begin(handle, override)
	return nil
}

// Restore takes up a run that an earlier client stored, as an agent does when it starts.
func (t *Task) Restore(ctx context.Context, handle TaskHandle) error {
	if err := t.alloc.plugin.RecoverTask(ctx, handle); err != nil {
		derr := t.alloc.plugin.DestroyTask(ctx, handle.Config.ID, true)
		return errors.Join(fmt.Errorf("recover task: %w", err), derr)
	}
	if err := t.startLogs(); err != nil { // only now: clients recover first
		return err
	}
	t.begin(handle, nil)
	return nil
}

func (t *Task) begin(handle TaskHandle, override *NetworkOverride) {
	r := &run{id: handle.Config.ID, done: make(chan struct{})}
	t.mu.Lock()
	t.run, t.handle, t.net, t.usage = r, handle, override, TaskUsage{}
	t.mu.Unlock()
	p := t.alloc.plugin
	p.care.Go(func() { t.follow(p.life, r) })
}

// config builds the next run's TaskConfig under a new id.
func (t *Task) config(ctx context.Context) (TaskConfig, error) {
	a := t.alloc
	env := t.Env()
	node := a.plugin.opts.Node
	encoded, err := a.plugin.EncodeTaskConfig(ctx, t.spec.Config, Scope{Env: env, Node: node})
	if err != nil {
		return TaskConfig{}, err
	}
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // never fails
	return TaskConfig{
		ID:   fmt.Sprintf("%s/%s/%s", a.spec.ID, t.spec.Name, hex.EncodeToString(suffix[:])),
		Name: t.spec.Name, GroupName: a.spec.Group, JobName: a.spec.JobName, JobID: a.spec.JobID,
		Namespace: a.spec.Namespace, AllocID: a.spec.ID, NodeName: node.Name, NodeID: node.ID,
		DriverConfig: encoded, Env: env, Resources: t.spec.Resources, Mounts: t.spec.Mounts, Devices: t.spec.Devices,
		User: t.spec.User, AllocDir: a.dir.Dir, StdoutPath: t.stdout, StderrPath: t.stderr,
		Network: a.spec.Network, DNS: a.spec.DNS,
	}, nil
}

func (t *Task) startLogs() error {
	for _, c := range t.logs {
		if err := c.Start(); err != nil {
			return err
		}
	}
	return nil
}

// abandonLogs stops the collection at once, whoever may still write.
func (t *Task) abandonLogs() {
	for _, c := range t.logs {
		if err := c.Close(); err != nil {
			t.alloc.plugin.log.Error("log collection failed", "task", t.spec.Name, "error", err)
		}
	}
}

// Wait returns when the current run has ended, its output is collected and the driver has
// forgotten it. [ErrClosed] says that the client let go of the plugin while the task ran on.
func (t *Task) Wait(ctx context.Context) (ExitResult, error) {
	r := t.current()
	if r == nil {
		return ExitResult{}, errors.New("task was not started")
	}
	select {
	case <-r.done:
		return r.exit, r.err
	case <-ctx.Done():
		return ExitResult{}, ctx.Err()
	}
}

// Stop ends the current run with the job's kill signal and timeout and waits for its end. A
// StopTask that fails is tried again as a client does, for up to six minutes.
func (t *Task) Stop(ctx context.Context) error {
	r := t.current()
	if r == nil {
		return nil
	}
	err := t.stopOnce(ctx, r)
	for _, pause := range t.alloc.plugin.stopRetries {
		if err == nil || ctx.Err() != nil || isClosed(r.done) {
			break
		}
		t.alloc.plugin.log.Error("failed to kill task, retrying", "task", t.spec.Name, "error", err, "pause", pause)
		select {
		case <-time.After(pause):
			err = t.stopOnce(ctx, r)
		case <-r.done:
		case <-ctx.Done():
		}
	}
	if err != nil && !isClosed(r.done) {
		return err
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Task) stopOnce(ctx context.Context, r *run) error {
	if isClosed(r.done) {
		return nil
	}
	return t.alloc.plugin.StopTask(ctx, r.id, t.spec.KillTimeout, t.spec.KillSignal)
}

// Signal sends a signal to the current run.
func (t *Task) Signal(ctx context.Context, signal string) error {
	return t.alloc.plugin.SignalTask(ctx, t.ID(), signal)
}

// Exec runs a command in the current run with its streams connected; TaskID is filled in.
func (t *Task) Exec(ctx context.Context, r ExecRequest) (ExitResult, error) {
	r.TaskID = t.ID()
	return t.alloc.plugin.ExecTaskStreaming(ctx, r)
}
