package host

import (
	"context"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// IsRecoverable reports whether a StartTask error says that another attempt may succeed.
func IsRecoverable(err error) bool { return wire.IsRecoverable(err) }

// ErrorText is an error of a call without the frame that gRPC puts around the plugin's text.
func ErrorText(err error) string {
	if st, ok := status.FromError(err); ok {
		return st.Message()
	}
	return err.Error()
}

// Capabilities asks what the driver can do.
func (p *Plugin) Capabilities(ctx context.Context) (Capabilities, error) {
	inst, err := p.instance(ctx)
	if err != nil {
		return Capabilities{}, err
	}
	answer, err := inst.Driver.Capabilities(ctx, &driverpb.CapabilitiesRequest{})
	if err == nil {
		err = p.breaches.check("Capabilities", answer)
	}
	return fromCapabilities(answer.GetCapabilities()), p.settle(ctx, inst, "Capabilities", err)
}

// StartTask starts a task. The error is a gRPC status whose text a job's author sees; see
// [IsRecoverable] and [ErrorText]. A real client sends it without a deadline.
func (p *Plugin) StartTask(ctx context.Context, cfg TaskConfig) (TaskHandle, *NetworkOverride, error) {
	inst, err := p.instance(ctx)
	if err != nil {
		return TaskHandle{}, nil, err
	}
	sent := toTaskConfig(cfg)
	answer, err := inst.Driver.StartTask(ctx, &driverpb.StartTaskRequest{Task: sent})
	if err != nil {
		return TaskHandle{}, nil, p.settle(ctx, inst, "StartTask", err)
	}
	if err := p.breaches.check("StartTask", answer); err != nil {
		return TaskHandle{}, nil, err
	}
	if err := checkEcho(sent, answer.GetHandle()); err != nil {
		return TaskHandle{}, nil, p.breaches.add(TrapHandle, "StartTask", err.Error())
	}
	p.given(cfg.ID, inst)
	h := answer.GetHandle()
	return TaskHandle{
		Version: int(h.GetVersion()), Config: cfg, State: TaskState(h.GetState()), DriverState: h.GetDriverState(),
	}, fromOverride(answer.GetNetworkOverride()), nil
}

// RecoverTask hands a task to a plugin that did not start it, or no longer knows. As from a
// real client the id stands in the handle alone.
func (p *Plugin) RecoverTask(ctx context.Context, h TaskHandle) error {
	inst, err := p.instance(ctx)
	if err != nil {
		return err
	}
	_, err = inst.Driver.RecoverTask(ctx, &driverpb.RecoverTaskRequest{Handle: toHandle(h)})
	if err == nil {
		p.given(h.Config.ID, inst)
	}
	return p.settle(ctx, inst, "RecoverTask", err)
}

// given notes which process has a task. A real client's handle on a task is bound to that one.
func (p *Plugin) given(id string, inst *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.knows[id] = inst
}

// taken notes that no process has a task any more.
func (p *Plugin) taken(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.knows, id)
}

// WaitTask blocks until the task has exited. [ErrPluginGone] says that the plugin died instead,
// also when it did before this call and another one is there that was not given the task.
func (p *Plugin) WaitTask(ctx context.Context, id string) (ExitResult, error) {
	inst, err := p.instance(ctx)
	if err != nil {
		return ExitResult{}, err
	}
	if p.passedOver(id, inst) {
		return ExitResult{}, ErrPluginGone
	}
	answer, err := inst.Driver.WaitTask(ctx, &driverpb.WaitTaskRequest{TaskId: id})
	if err != nil {
		err = p.settle(ctx, inst, "WaitTask", err)
		p.checkWaitError(ctx, inst, id, err)
		return ExitResult{}, err
	}
	if err := p.breaches.check("WaitTask", answer); err != nil {
		return ExitResult{}, err
	}
	return fromExit(answer.GetResult(), answer.GetErr()), nil
}

// passedOver reports a task that another process was given than this one.
func (p *Plugin) passedOver(id string, inst *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	has := p.knows[id]
	return has != nil && has != inst
}

// checkWaitError reports a wait that failed while the task runs: a client takes the task for
// exited, destroys it and starts it anew.
func (p *Plugin) checkWaitError(ctx context.Context, inst *instance, id string, err error) {
	if ctx.Err() != nil || isClosed(inst.exited) {
		return
	}
	answer, inspectErr := inst.Driver.InspectTask(ctx, &driverpb.InspectTaskRequest{TaskId: id})
	if inspectErr == nil && answer.GetTask().GetState() == driverpb.TaskState_RUNNING {
		p.breaches.add(TrapWaitError, "WaitTask", err.Error())
	}
}

// StopTask asks for the end of a task: signal (empty is the driver's choice), then force after
// the timeout.
func (p *Plugin) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	inst, err := p.instance(ctx)
	if err != nil {
		return err
	}
	_, err = inst.Driver.StopTask(ctx, &driverpb.StopTaskRequest{
		TaskId: id, Timeout: durationpb.New(timeout), Signal: signal,
	})
	if err != nil && ErrorText(err) == wire.TaskNotFoundText {
		p.breaches.add(TrapStopUnknown, "StopTask", err.Error())
	}
	return p.settle(ctx, inst, "StopTask", err)
}

// DestroyTask makes the driver forget a task and free what it holds. A real client always
// forces.
func (p *Plugin) DestroyTask(ctx context.Context, id string, force bool) error {
	inst, err := p.instance(ctx)
	if err != nil {
		return err
	}
	_, err = inst.Driver.DestroyTask(ctx, &driverpb.DestroyTaskRequest{TaskId: id, Force: force})
	if err == nil {
		p.taken(id)
	}
	return p.settle(ctx, inst, "DestroyTask", err)
}

// InspectTask asks for a task's state.
func (p *Plugin) InspectTask(ctx context.Context, id string) (TaskStatus, error) {
	inst, err := p.instance(ctx)
	if err != nil {
		return TaskStatus{}, err
	}
	answer, err := inst.Driver.InspectTask(ctx, &driverpb.InspectTaskRequest{TaskId: id})
	if err != nil {
		return TaskStatus{}, p.settle(ctx, inst, "InspectTask", err)
	}
	if err := p.breaches.check("InspectTask", answer); err != nil {
		return TaskStatus{}, err
	}
	return fromStatus(answer), nil
}

// SignalTask sends a signal by its name.
func (p *Plugin) SignalTask(ctx context.Context, id, signal string) error {
	inst, err := p.instance(ctx)
	if err != nil {
		return err
	}
	_, err = inst.Driver.SignalTask(ctx, &driverpb.SignalTaskRequest{TaskId: id, Signal: signal})
	return p.settle(ctx, inst, "SignalTask", err)
}
