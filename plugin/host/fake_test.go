package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
)

// The fake plugin is this test binary itself, started with the client's cookie.
func TestMain(m *testing.M) {
	if wire.LaunchedByClient() {
		wire.Serve(func(log hclog.Logger) wire.Server { return newFake(log) })
		return
	}
	os.Exit(m.Run())
}

// fakeDir is the variable that tells a fake plugin process where to record its calls.
const fakeDir = "FAKE_DIR"

// fake is a driver whose tasks are shell commands that outlive it. The answer functions let a
// test replace single answers, also by wrong ones.
type fake struct {
	basepb.UnimplementedBasePluginServer
	driverpb.UnimplementedDriverServer
	log hclog.Logger
	dir string // for the record of calls; empty keeps none

	diesOnce bool

	mu    sync.Mutex
	tasks map[string]*fakeTask

	info        func() *basepb.PluginInfoResponse
	schema      func() *basepb.ConfigSchemaResponse
	caps        func() *driverpb.CapabilitiesResponse
	taskSchema  func() *driverpb.TaskConfigSchemaResponse
	setConfig   func(lasting bool) error
	startErr    error // before anything is started
	start       func(*driverpb.StartTaskResponse)
	wait        func() (*driverpb.WaitTaskResponse, error)
	stop        func() error
	inspect     func(*driverpb.InspectTaskResponse)
	execTask    func() *driverpb.ExecTaskResponse
	stats       func() (*driverpb.TaskStatsResponse, error)
	fingerprint func(grpc.ServerStreamingServer[driverpb.FingerprintResponse]) error
	events      func(grpc.ServerStreamingServer[driverpb.DriverTaskEvent]) error
	execStream  func(grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]) error
}

// fakeTask is a shell that runs the command and writes the exit code to a file.
type fakeTask struct {
	config   *driverpb.TaskConfig
	Pid      int
	ExitFile string
}

func newFake(log hclog.Logger) *fake {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	f := &fake{log: log, dir: os.Getenv(fakeDir), tasks: map[string]*fakeTask{}}
	f.record("environ", strings.Join(os.Environ(), "\n"))
	return f
}

// record appends a call to the record: pid, method, detail.
func (f *fake) record(method string, detail any) {
	if f.dir == "" {
		return
	}
	line, err := json.Marshal([]any{os.Getpid(), method, detail})
	if err != nil {
		panic(err)
	}
	out, err := os.OpenFile(filepath.Join(f.dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer out.Close()
	if _, err := out.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

type fakeCall struct {
	Pid    int
	Method string
	Detail any
}

// calls reads the record, without the environments.
func calls(t *testing.T, dir string) []fakeCall {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	var out []fakeCall
	for line := range strings.Lines(string(data)) {
		var c [3]any
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, fakeCall{int(c[0].(float64)), c[1].(string), c[2]})
	}
	return out
}

func (f *fake) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	f.record("PluginInfo", nil)
	if f.info != nil {
		return f.info(), nil
	}
	return &basepb.PluginInfoResponse{
		Type: basepb.PluginType_DRIVER, PluginApiVersions: []string{wire.APIVersion}, PluginVersion: "0.1.0-dev", Name: "fake",
	}, nil
}

func (f *fake) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	f.record("ConfigSchema", nil)
	if f.schema != nil {
		return f.schema(), nil
	}
	return &basepb.ConfigSchemaResponse{Spec: hclspec.Object(map[string]*hclspec.Spec{
		"level": hclspec.DefaultNumber("level", 3), "trouble": hclspec.DefaultString("trouble", ""),
	})}, nil
}

func (f *fake) SetConfig(_ context.Context, r *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	var cfg struct {
		Level   int    `codec:"level"`
		Trouble string `codec:"trouble"`
	}
	if err := msgpack.Decode(r.GetMsgpackConfig(), &cfg); err != nil {
		return nil, err
	}
	f.record("SetConfig", map[string]any{
		"level": cfg.Level, "nomad": r.GetNomadConfig() != nil, "api": r.GetPluginApiVersion(),
		"cores": len(r.GetNomadConfig().GetDriver().GetTopology().GetCores()), "ports": r.GetNomadConfig().GetDriver().GetClientMinPort(),
	})
	if f.setConfig != nil {
		if err := f.setConfig(r.GetNomadConfig() != nil); err != nil {
			return nil, err
		}
	}
	if r.GetNomadConfig() == nil {
		return &basepb.SetConfigResponse{}, nil
	}
	return &basepb.SetConfigResponse{}, f.makeTrouble(cfg.Trouble)
}

// makeTrouble does what only a process can do wrong.
func (f *fake) makeTrouble(kind string) error {
	switch kind {
	case "refuse":
		return errors.New("the level is too high")
	case "log line":
		_, err := fmt.Fprintln(originalStderr, `{"@message":7,"@level":"info"}`)
		return err
	case "dies in StartTask":
		f.diesOnce = true
	case "inherited pipe":
		cmd := exec.Command("sleep", "3600")
		cmd.Stderr = originalStderr
		if err := cmd.Start(); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(f.dir, "child"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	}
	return nil
}

// originalStderr is the process's own: go-plugin replaces the variable.
var originalStderr = os.Stderr

func (f *fake) Init(context.Context, *driverpb.InitRequest) (*driverpb.InitResponse, error) {
	f.record("Init", nil)
	return &driverpb.InitResponse{}, nil
}

func (f *fake) Shutdown(context.Context, *driverpb.ShutdownRequest) (*driverpb.ShutdownResponse, error) {
	f.record("Shutdown", nil)
	return &driverpb.ShutdownResponse{}, nil
}

func (f *fake) TaskConfigSchema(context.Context, *driverpb.TaskConfigSchemaRequest) (*driverpb.TaskConfigSchemaResponse, error) {
	f.record("TaskConfigSchema", nil)
	if f.taskSchema != nil {
		return f.taskSchema(), nil
	}
	return &driverpb.TaskConfigSchemaResponse{Spec: hclspec.Object(map[string]*hclspec.Spec{
		"command": hclspec.Required("command", hclspec.String), "count": hclspec.Attr("count", hclspec.Number),
	})}, nil
}

func (f *fake) Capabilities(context.Context, *driverpb.CapabilitiesRequest) (*driverpb.CapabilitiesResponse, error) {
	f.record("Capabilities", nil)
	if f.caps != nil {
		return f.caps(), nil
	}
	return &driverpb.CapabilitiesResponse{Capabilities: &driverpb.DriverCapabilities{
		SendSignals: true, Exec: true, FsIsolation: driverpb.DriverCapabilities_IMAGE,
		NetworkIsolationModes: []driverpb.NetworkIsolationSpec_NetworkIsolationMode{driverpb.NetworkIsolationSpec_GROUP},
	}}, nil
}

func (f *fake) Fingerprint(_ *driverpb.FingerprintRequest, out grpc.ServerStreamingServer[driverpb.FingerprintResponse]) error {
	f.record("Fingerprint", nil)
	if f.fingerprint != nil {
		return f.fingerprint(out)
	}
	err := out.Send(&driverpb.FingerprintResponse{
		Health: driverpb.FingerprintResponse_HEALTHY, HealthDescription: "Healthy",
		Attributes: map[string]*structspb.Attribute{
			"driver.fake.version": {Value: &structspb.Attribute_StringVal{StringVal: "0.1"}},
		},
	})
	if err != nil {
		return err
	}
	<-out.Context().Done()
	return nil
}

func (f *fake) TaskEvents(_ *driverpb.TaskEventsRequest, out grpc.ServerStreamingServer[driverpb.DriverTaskEvent]) error {
	f.record("TaskEvents", nil)
	if f.events != nil {
		return f.events(out)
	}
	<-out.Context().Done()
	return nil
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

func (f *fake) SignalTask(_ context.Context, r *driverpb.SignalTaskRequest) (*driverpb.SignalTaskResponse, error) {
	f.record("SignalTask", r.GetSignal())
	if !strings.HasPrefix(r.GetSignal(), "SIG") {
		f.log.Error("signal refused", "signal", r.GetSignal())
		return nil, status.Error(codes.InvalidArgument, "unknown signal "+r.GetSignal())
	}
	return &driverpb.SignalTaskResponse{}, nil
}

func (f *fake) TaskStats(r *driverpb.TaskStatsRequest, out grpc.ServerStreamingServer[driverpb.TaskStatsResponse]) error {
	if f.stats != nil {
		answer, err := f.stats()
		if err != nil {
			return err
		}
		return out.Send(answer)
	}
	err := out.Send(&driverpb.TaskStatsResponse{Stats: &driverpb.TaskStats{
		Id: r.GetTaskId(), Timestamp: timestamppb.Now(),
		AggResourceUsage: &driverpb.TaskResourceUsage{
			Cpu:    &driverpb.CPUUsage{Percent: 12.5, MeasuredFields: []driverpb.CPUUsage_Fields{driverpb.CPUUsage_PERCENT}},
			Memory: &driverpb.MemoryUsage{Usage: 42, MeasuredFields: []driverpb.MemoryUsage_Fields{driverpb.MemoryUsage_USAGE}},
		},
		ResourceUsageByPid: map[string]*driverpb.TaskResourceUsage{"7": {}},
	}})
	if err != nil {
		return err
	}
	<-out.Context().Done()
	return nil
}

func (f *fake) ExecTask(_ context.Context, r *driverpb.ExecTaskRequest) (*driverpb.ExecTaskResponse, error) {
	if f.execTask != nil {
		return f.execTask(), nil
	}
	return &driverpb.ExecTaskResponse{
		Stdout: []byte(strings.Join(r.GetCommand(), " ")), Stderr: []byte("e"), Result: &driverpb.ExitResult{ExitCode: 3},
	}, nil
}

func (f *fake) ExecTaskStreaming(s grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]) error {
	if f.execStream != nil {
		return f.execStream(s)
	}
	return echo(s)
}

// echo answers each input chunk on standard output, each size on standard error, and exits
// with 43 at the end of the input.
func echo(s grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if first.GetSetup() == nil {
		return errors.New("the first message must be the setup")
	}
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		answer := &driverpb.ExecTaskStreamingResponse{}
		switch {
		case proto.Equal(m, &driverpb.ExecTaskStreamingRequest{}):
			answer.Stderr = &driverpb.ExecTaskStreamingIOOperation{Data: []byte("beat ")}
		case m.GetTtySize() != nil:
			answer.Stderr = &driverpb.ExecTaskStreamingIOOperation{
				Data: fmt.Appendf(nil, "%dx%d ", m.GetTtySize().GetHeight(), m.GetTtySize().GetWidth()),
			}
		case m.GetStdin().GetClose():
			return errors.Join(
				s.Send(&driverpb.ExecTaskStreamingResponse{Stdout: &driverpb.ExecTaskStreamingIOOperation{Close: true}}),
				s.Send(&driverpb.ExecTaskStreamingResponse{Exited: true, Result: &driverpb.ExitResult{ExitCode: 43}}))
		default:
			answer.Stdout = &driverpb.ExecTaskStreamingIOOperation{Data: m.GetStdin().GetData()}
		}
		if err := s.Send(answer); err != nil {
			return err
		}
	}
}

func (f *fake) CreateNetwork(_ context.Context, r *driverpb.CreateNetworkRequest) (*driverpb.CreateNetworkResponse, error) {
	return &driverpb.CreateNetworkResponse{Created: true, IsolationSpec: &driverpb.NetworkIsolationSpec{
		Mode: driverpb.NetworkIsolationSpec_GROUP, Path: "/var/run/netns/" + r.GetAllocId(),
		HostsConfig: &driverpb.HostsConfig{Hostname: r.GetHostname()},
	}}, nil
}

func (f *fake) DestroyNetwork(_ context.Context, r *driverpb.DestroyNetworkRequest) (*driverpb.DestroyNetworkResponse, error) {
	f.record("DestroyNetwork", r.GetIsolationSpec().GetPath())
	return &driverpb.DestroyNetworkResponse{}, nil
}
