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
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/msgpack"
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

// calls reads the record as far as it has been written.
func calls(t *testing.T, dir string) []fakeCall {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	var out []fakeCall
	for line := range strings.Lines(string(data)) {
		if !strings.HasSuffix(line, "\n") {
			break // a process is writing it
		}
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
