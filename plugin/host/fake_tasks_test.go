package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
)

// fakeTask is a shell that runs the command and writes the exit code to a file.
type fakeTask struct {
	config   *driverpb.TaskConfig
	Pid      int
	ExitFile string
}

func (f *fake) task(id string) (*fakeTask, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tasks[id]; t != nil {
		return t, nil
	}
	return nil, wire.ErrTaskNotFound
}

func (f *fake) StartTask(_ context.Context, r *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
	cfg := r.GetTask()
	f.record("StartTask", cfg.GetId())
	if f.startErr != nil {
		return nil, f.startErr
	}
	if f.diesOnce {
		f.die()
	}
	var own struct {
		Command string `codec:"command"`
	}
	if err := msgpack.Decode(cfg.GetMsgpackDriverConfig(), &own); err != nil {
		return nil, wire.Recoverable(err, false)
	}
	t := &fakeTask{config: cfg, ExitFile: filepath.Join(cfg.GetAllocDir(), strings.ReplaceAll(cfg.GetId(), "/", "_")+".exit")}
	if own.Command != "" {
		if err := t.run(own.Command); err != nil {
			return nil, wire.Recoverable(err, true)
		}
	}
	f.mu.Lock()
	f.tasks[cfg.GetId()] = t
	f.mu.Unlock()
	state, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	answer := &driverpb.StartTaskResponse{Handle: &driverpb.TaskHandle{
		Version: 1, Config: cfg, State: driverpb.TaskState_RUNNING, DriverState: state,
	}}
	if f.start != nil {
		f.start(answer)
	}
	return answer, nil
}

// die ends the process in the middle of a call, once for a record of calls.
func (f *fake) die() {
	marker := filepath.Join(f.dir, "died")
	if _, err := os.Stat(marker); err == nil {
		return
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		panic(err)
	}
	os.Exit(1)
}

// run starts the command in a session of its own; it writes to the FIFOs itself, and its exit
// code to a file.
func (t *fakeTask) run(command string) error {
	script := fmt.Sprintf(`(%s) >%q 2>%q; echo $? >%q.new; mv %q.new %q`,
		command, t.config.GetStdoutPath(), t.config.GetStderrPath(), t.ExitFile, t.ExitFile, t.ExitFile)
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.Pid = cmd.Process.Pid
	go func() { _ = cmd.Wait() }()
	return nil
}

func (f *fake) RecoverTask(_ context.Context, r *driverpb.RecoverTaskRequest) (*driverpb.RecoverTaskResponse, error) {
	cfg := r.GetHandle().GetConfig()
	f.record("RecoverTask", map[string]any{
		"task_id": r.GetTaskId(), "id": cfg.GetId(), "driver_config": len(cfg.GetMsgpackDriverConfig()),
	})
	if _, err := f.task(cfg.GetId()); err == nil {
		return &driverpb.RecoverTaskResponse{}, nil
	}
	t := &fakeTask{config: cfg}
	if err := json.Unmarshal(r.GetHandle().GetDriverState(), t); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks[cfg.GetId()] = t
	return &driverpb.RecoverTaskResponse{}, nil
}

func (f *fake) WaitTask(ctx context.Context, r *driverpb.WaitTaskRequest) (*driverpb.WaitTaskResponse, error) {
	f.record("WaitTask", r.GetTaskId())
	if f.wait != nil {
		return f.wait()
	}
	t, err := f.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	for {
		if code, exited := t.exitCode(); exited {
			return &driverpb.WaitTaskResponse{Result: &driverpb.ExitResult{ExitCode: code}}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (t *fakeTask) exitCode() (int32, bool) {
	data, err := os.ReadFile(t.ExitFile)
	if err != nil {
		return 0, false
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(data)))
	return int32(code), err == nil
}

func (f *fake) StopTask(_ context.Context, r *driverpb.StopTaskRequest) (*driverpb.StopTaskResponse, error) {
	f.record("StopTask", map[string]any{"timeout": r.GetTimeout().AsDuration().String(), "signal": r.GetSignal()})
	if f.stop != nil {
		if err := f.stop(); err != nil {
			return nil, err
		}
	}
	t, err := f.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	t.kill()
	return &driverpb.StopTaskResponse{}, nil
}

// kill ends the task's whole session and stands in for its exit code.
func (t *fakeTask) kill() {
	if _, exited := t.exitCode(); !exited && t.Pid != 0 {
		_ = syscall.Kill(-t.Pid, syscall.SIGKILL)
		_ = os.WriteFile(t.ExitFile, []byte("137\n"), 0o600)
	}
}

func (f *fake) DestroyTask(_ context.Context, r *driverpb.DestroyTaskRequest) (*driverpb.DestroyTaskResponse, error) {
	f.record("DestroyTask", r.GetForce())
	t, err := f.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	t.kill()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tasks, r.GetTaskId())
	return &driverpb.DestroyTaskResponse{}, nil
}

func (f *fake) InspectTask(_ context.Context, r *driverpb.InspectTaskRequest) (*driverpb.InspectTaskResponse, error) {
	t, err := f.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	answer := &driverpb.InspectTaskResponse{Task: &driverpb.TaskStatus{
		Id: r.GetTaskId(), Name: t.config.GetName(), State: driverpb.TaskState_RUNNING,
		StartedAt: timestamppb.Now(), CompletedAt: timestamppb.New(time.Time{}), Result: &driverpb.ExitResult{},
	}, Driver: &driverpb.TaskDriverStatus{Attributes: map[string]string{"pid": strconv.Itoa(t.Pid)}}}
	if code, exited := t.exitCode(); exited {
		answer.Task.State, answer.Task.CompletedAt = driverpb.TaskState_EXITED, timestamppb.Now()
		answer.Task.Result.ExitCode = code
	}
	if f.inspect != nil {
		f.inspect(answer)
	}
	return answer, nil
}
