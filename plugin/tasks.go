package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

const (
	// startTimeout bounds a start, what its image takes not counted: nobody
	// can cancel one.
	startTimeout = 10 * time.Minute
	// defaultPullTimeout is what the runner waits for an image when neither task
	// nor operator says.
	defaultPullTimeout = 15 * time.Minute
	// recoverTimeout bounds what a recovery asks the engine. An agent's start
	// waits for every one of them.
	recoverTimeout = 5 * time.Second
	// removeTimeout bounds taking a sandbox down.
	removeTimeout = 2 * time.Minute
	// stopSlack is what a stop may take beyond the task's own timeout.
	stopSlack = 60 * time.Second
	// killWait is how long a forced destroy waits for the exit it caused.
	killWait = 5 * time.Second
)

// StartTask runs a task: judged and translated first, then handed down once.
func (p *Plugin) StartTask(ctx context.Context, r *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
	tc := r.GetTask()
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	known, release, err := p.tasks.begin(TaskID(tc.GetId()), interrupt)
	if err != nil {
		return nil, startError(err)
	}
	defer release()
	if known != nil {
		return nil, startError(fmt.Errorf("task %s was started already: %w", tc.GetId(), errState))
	}
	b, err := p.backend()
	if err != nil {
		return nil, startError(err)
	}
	pl, err := p.planWithin(ctx, b, tc)
	if err != nil {
		return nil, startError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout+cmp.Or(pl.Spec.Sandbox.Task.Image.Timeout, defaultPullTimeout))
	defer cancel()
	t, err := p.launch(ctx, b, tc, pl)
	if err != nil {
		return nil, startError(err)
	}
	handle, err := t.handle()
	if err != nil {
		return nil, startError(err)
	}
	return &driverpb.StartTaskResponse{Handle: handle}, nil
}

// RecoverTask takes a task up again that another process, or this one before a
// crash of the agent, looked after. The request's own id is always empty.
func (p *Plugin) RecoverTask(ctx context.Context, r *driverpb.RecoverTaskRequest) (*driverpb.RecoverTaskResponse, error) {
	tc := r.GetHandle().GetConfig()
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	known, release, err := p.tasks.begin(TaskID(tc.GetId()), interrupt)
	if err != nil {
		return nil, callError(err)
	}
	defer release()
	if known != nil {
		return &driverpb.RecoverTaskResponse{}, nil
	}
	s, err := decodeState(r.GetHandle().GetDriverState())
	if err != nil {
		return nil, callError(err)
	}
	b, err := p.backend()
	if err != nil {
		return nil, callError(err)
	}
	if run := RunID(TaskID(tc.GetId())); s.Run != run || s.Ref != b.Ref(run) {
		return nil, callError(fmt.Errorf("driver state: it is of another task than %q", tc.GetId()))
	}
	ask, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	h, err := b.Driver.Inspect(ask, s.Ref)
	if err == nil && h.State == driver.StateGone {
		return nil, callError(fmt.Errorf("sandbox %s is gone", s.Ref))
	}
	if ctx.Err() != nil { // a destroy wants it gone, or nobody waits for the answer any more
		return nil, callError(fmt.Errorf("recover task %q: %w", tc.GetName(), ctx.Err()))
	}
	if err != nil { // not asked is not gone: the watch asks on
		p.log.Warn("a recovered task's sandbox cannot be asked about yet", "task_id", tc.GetId(), "ref", s.Ref, "error", err)
	}
	if err := p.adopt(b, tc, s); err != nil {
		return nil, callError(err)
	}
	return &driverpb.RecoverTaskResponse{}, nil
}

// StopTask ends a task's process and keeps its sandbox, for its exit to be
// read. A client retries for minutes on any error, so a task that is not there
// is stopped.
func (p *Plugin) StopTask(ctx context.Context, r *driverpb.StopTaskRequest) (*driverpb.StopTaskResponse, error) {
	signal, err := signalName(r.GetSignal())
	if err != nil {
		return nil, callError(err)
	}
	b, err := p.backend()
	if err != nil {
		return nil, callError(err)
	}
	id, timeout := TaskID(r.GetTaskId()), max(r.GetTimeout().AsDuration(), 0)
	stop := func(ctx context.Context) error {
		return stopProcess(ctx, b.Runner, b.Ref(RunID(id)), signal, timeout)
	}
	if t, ok := p.tasks.get(id); ok {
		if _, ended := t.exit(); ended {
			return &driverpb.StopTaskResponse{}, nil
		}
		stop = func(ctx context.Context) error { return p.stopTask(ctx, b, t, signal, timeout) }
		if t.settingUp() {
			if err := t.endSetup(ctx); err != nil {
				return nil, callError(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+stopSlack)
	defer cancel()
	if err := stop(ctx); err != nil && !errors.Is(err, runner.ErrNotFound) {
		return nil, callError(fmt.Errorf("stop %s: %w", b.Ref(RunID(id)), err))
	}
	return &driverpb.StopTaskResponse{}, nil
}

// stopProcess ends a main process, by removing its sandbox where the runner
// can do no better.
func stopProcess(ctx context.Context, r runner.Runner, ref, signal string, timeout time.Duration) error {
	if s, ok := r.(runner.Stopper); ok {
		return s.StopProcess(ctx, ref, signal, timeout)
	}
	return r.StopSandbox(ctx, ref)
}

// SignalTask sends a signal to a task's process.
func (p *Plugin) SignalTask(ctx context.Context, r *driverpb.SignalTaskRequest) (*driverpb.SignalTaskResponse, error) {
	signal, err := signalName(r.GetSignal())
	if err == nil && signal == "" {
		err = fmt.Errorf("no signal is named: %w", runner.ErrInvalid)
	}
	if err != nil {
		return nil, callError(err)
	}
	if h, _ := p.options(); h.Sessions.NoSuspend && freezes(signal) {
		return nil, callError(fmt.Errorf("signal %s freezes the task: %w", signal, refuseSession("suspend")))
	}
	t, b, err := p.livingOrParked(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := p.signal(ctx, b, t, signal); err != nil {
		return nil, callError(err)
	}
	return &driverpb.SignalTaskResponse{}, nil
}

// InspectTask is what is known of a task.
func (p *Plugin) InspectTask(ctx context.Context, r *driverpb.InspectTaskRequest) (*driverpb.InspectTaskResponse, error) {
	t, ok := p.tasks.get(TaskID(r.GetTaskId()))
	if !ok {
		return nil, wire.ErrTaskNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	state := verbCall{plugin: p, task: t, ctx: ctx}.stateWord()
	return &driverpb.InspectTaskResponse{
		Task: t.status(),
		Driver: &driverpb.TaskDriverStatus{Attributes: map[string]string{
			"sandbox": t.state.Ref, "run_id": t.state.Run.String(), "session": t.state.Session,
			"class": string(t.state.Class), "image": t.state.Image, "state": state,
		}},
	}, nil
}

// living finds a task that runs, and the backend.
func (p *Plugin) living(id string) (*task, *Backend, error) {
	t, b, err := p.livingOrParked(id)
	if err == nil && t.parking.until() != nil {
		return nil, nil, callError(fmt.Errorf("task %q: %w", t.config.GetName(), errParked))
	}
	return t, b, err
}

// livingOrParked finds a task that has not exited, and the backend.
func (p *Plugin) livingOrParked(id string) (*task, *Backend, error) {
	t, ok := p.tasks.get(TaskID(id))
	if !ok {
		return nil, nil, wire.ErrTaskNotFound
	}
	if _, ended := t.exit(); ended {
		return nil, nil, callError(fmt.Errorf("task %q has exited: %w", t.config.GetName(), errState))
	}
	if t.settingUp() {
		return nil, nil, callError(fmt.Errorf("the setup of task %q is running; it has no sandbox yet: %w", t.config.GetName(), errState))
	}
	b, err := p.backend()
	return t, b, callError(err)
}

// taskLog is the log with what every line about a task carries.
func (p *Plugin) taskLog(t *task) *slog.Logger {
	return p.log.With("alloc_id", t.config.GetAllocId(), "task_name", t.config.GetName(), "ref", t.state.Ref)
}
