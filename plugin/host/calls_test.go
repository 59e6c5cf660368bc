package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// inMemory serves one fake for all processes of an agent, without the guards that a real
// plugin has: the client's own checks have to hold.
func inMemory(t *testing.T, f *fake, o Options) *Plugin {
	t.Helper()
	p, err := tryInMemory(t, f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func tryInMemory(t *testing.T, f *fake, o Options) (*Plugin, error) {
	t.Helper()
	o.Log, o.LogLevel = t.Output(), "warn"
	p := newPlugin(o)
	p.codeGrace = 10 * time.Millisecond
	p.launcher = &memoryLauncher{
		newServer: func(hclog.Logger) wire.Server { return f },
		newGRPC:   func() *grpc.Server { return grpc.NewServer() },
		log:       p.log,
	}
	return p.bring(deadline(t))
}

func waitFails(err error) func() (*driverpb.WaitTaskResponse, error) {
	return func() (*driverpb.WaitTaskResponse, error) { return nil, err }
}

// startPlain starts a task that runs no command.
func startPlain(t *testing.T, p *Plugin) (string, error) {
	t.Helper()
	h, _, err := p.StartTask(deadline(t), TaskConfig{ID: "a/web/1", Name: "web", AllocDir: t.TempDir()})
	return h.Config.ID, err
}

// TestTrapsAreSurvivedAndReported: each wrong answer becomes a breach and an error, and the
// client goes on.
func TestTrapsAreSurvivedAndReported(t *testing.T) {
	now := timestamppb.Now()
	usage := &driverpb.TaskResourceUsage{}
	sample := func(s *driverpb.TaskStats) func() (*driverpb.TaskStatsResponse, error) {
		return func() (*driverpb.TaskStatsResponse, error) { return &driverpb.TaskStatsResponse{Stats: s}, nil }
	}
	start := func(t *testing.T, p *Plugin) error { _, err := startPlain(t, p); return err }
	stats := func(t *testing.T, p *Plugin) error {
		return p.TaskStats(deadline(t), "x", time.Second, func(TaskUsage) error { return nil })
	}
	inspect := func(t *testing.T, p *Plugin) error {
		if _, err := startPlain(t, p); err != nil {
			return nil
		}
		_, err := p.InspectTask(deadline(t), "a/web/1")
		return err
	}
	wait := func(t *testing.T, p *Plugin) error { _, err := p.WaitTask(deadline(t), "x"); return err }
	edit := func(change func(*driverpb.StartTaskResponse)) func(*fake) {
		return func(f *fake) { f.start = change }
	}
	rows := []struct {
		name  string
		spoil func(*fake)
		call  func(*testing.T, *Plugin) error
		trap  Trap
	}{
		{"1 no stats", func(f *fake) { f.stats = sample(nil) }, stats, TrapStats},
		{"1 no usage", func(f *fake) { f.stats = sample(&driverpb.TaskStats{Timestamp: now}) }, stats, TrapStats},
		{"1 no time", func(f *fake) { f.stats = sample(&driverpb.TaskStats{AggResourceUsage: usage}) }, stats, TrapStats},
		{"2 no wait result", func(f *fake) {
			f.wait = func() (*driverpb.WaitTaskResponse, error) { return &driverpb.WaitTaskResponse{}, nil }
		}, wait, TrapWaitResult},
		{"3 no exec result", func(f *fake) {
			f.execTask = func() *driverpb.ExecTaskResponse { return &driverpb.ExecTaskResponse{} }
		}, func(t *testing.T, p *Plugin) error { _, err := p.ExecTask(deadline(t), "x", nil, 0); return err }, TrapResult},
		{"3 no task", func(f *fake) { f.inspect = func(r *driverpb.InspectTaskResponse) { r.Task = nil } }, inspect, TrapResult},
		{"3 no task result", func(f *fake) { f.inspect = func(r *driverpb.InspectTaskResponse) { r.Task.Result = nil } }, inspect, TrapResult},
		{"3 no time", func(f *fake) { f.inspect = func(r *driverpb.InspectTaskResponse) { r.Task.CompletedAt = nil } }, inspect, TrapResult},
		{"7 fatal", edit(func(r *driverpb.StartTaskResponse) { r.Result = driverpb.StartTaskResponse_FATAL }), start, TrapFatalAsOK},
		{"12 no handle", edit(func(r *driverpb.StartTaskResponse) { r.Handle = nil }), start, TrapHandle},
		{"12 no config", edit(func(r *driverpb.StartTaskResponse) { r.Handle.Config = nil }), start, TrapHandle},
		{"12 other config", edit(func(r *driverpb.StartTaskResponse) { r.Handle.Config = &driverpb.TaskConfig{Id: "other"} }), start, TrapHandle},
		{"12 not running", edit(func(r *driverpb.StartTaskResponse) { r.Handle.State = driverpb.TaskState_EXITED }), start, TrapHandle},
		{"14 stop of an unknown task", func(*fake) {}, func(t *testing.T, p *Plugin) error {
			return p.StopTask(deadline(t), "x", 0, "")
		}, TrapStopUnknown},
		{"18 stats end with an error", func(f *fake) {
			f.stats = func() (*driverpb.TaskStatsResponse, error) { return nil, errors.New("stats not implemented") }
		}, stats, TrapStatsError},
		{"41 unavailable", func(f *fake) { f.stop = func() error { return status.Error(codes.Unavailable, "engine") } },
			func(t *testing.T, p *Plugin) error { return p.StopTask(deadline(t), "x", 0, "") }, TrapCode},
		{"41 canceled", func(f *fake) { f.wait = waitFails(context.Canceled) }, wait, TrapCode},
		{"capabilities", func(f *fake) {
			f.caps = func() *driverpb.CapabilitiesResponse { return &driverpb.CapabilitiesResponse{} }
		},
			func(t *testing.T, p *Plugin) error { _, err := p.Capabilities(deadline(t)); return err }, TrapCapabilities},
		{"no task schema", func(f *fake) {
			f.taskSchema = func() *driverpb.TaskConfigSchemaResponse { return &driverpb.TaskConfigSchemaResponse{} }
		}, func(t *testing.T, p *Plugin) error {
			_, err := p.EncodeTaskConfig(deadline(t), map[string]any{}, Scope{})
			return err
		}, TrapSchema},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			f := newFake(nil)
			r.spoil(f)
			p := inMemory(t, f, Options{})
			if err := r.call(t, p); err == nil {
				t.Error("no error")
			}
			if b := p.Breaches(); len(b) == 0 || b[0].Trap != r.trap {
				t.Errorf("breaches %v, want %q", b, r.trap)
			}
			if _, err := p.Fingerprint(deadline(t)); err != nil {
				t.Error("the client does not go on:", err)
			}
		})
	}
}

// TestTraps5And6Load: what would keep an agent from starting keeps Launch from returning, or
// is reported.
func TestTraps5And6Load(t *testing.T) {
	info := func(change func(*basepb.PluginInfoResponse)) func(*fake) {
		return func(f *fake) {
			whole, _ := f.PluginInfo(t.Context(), nil)
			f.info = func() *basepb.PluginInfoResponse { change(whole); return whole }
		}
	}
	rows := []struct {
		name  string
		spoil func(*fake)
		says  string
	}{
		{"type", info(func(r *basepb.PluginInfoResponse) { r.Type = 1 }), "type"},
		{"API version", info(func(r *basepb.PluginInfoResponse) { r.PluginApiVersions = []string{"v0.2.0"} }), "v0.1.0"},
		{"version", info(func(r *basepb.PluginInfoResponse) { r.PluginVersion = "latest" }), "latest"},
		{"no version", info(func(r *basepb.PluginInfoResponse) { r.PluginVersion = "" }), "version"},
		{"name", info(func(r *basepb.PluginInfoResponse) { r.Name = "" }), "name"},
		{"schema that does not translate", func(f *fake) {
			f.schema = func() *basepb.ConfigSchemaResponse {
				return &basepb.ConfigSchemaResponse{Spec: hclspec.Object(map[string]*hclspec.Spec{"a": hclspec.Attr("a", "nonsense")})}
			}
		}, "nonsense"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			f := newFake(nil)
			r.spoil(f)
			p, err := tryInMemory(t, f, Options{})
			if err == nil {
				p.Close()
				t.Fatal("launched")
			}
			if !strings.Contains(err.Error(), r.says) {
				t.Errorf("%q does not say %q", err, r.says)
			}
		})
	}
	for version, fine := range map[string]bool{
		"0.1.0": true, "v0.1.0": true, "0.3.1-dev": true, "1": true, "1.2.3+meta.4": true, "": false, "dev": false, "1.2.3.4.x": false,
	} {
		err := checkInfo(&basepb.PluginInfoResponse{
			Type: basepb.PluginType_DRIVER, PluginApiVersions: []string{"v0.1.0"}, PluginVersion: version, Name: "x",
		})
		if (err == nil) != fine {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

func TestTraps6And30Schemas(t *testing.T) {
	for name, r := range map[string]struct {
		spec *hclspec.Spec
		trap Trap
	}{
		"top level": {hclspec.Literal(`{}`), TrapSchema},
		"unnamed": {hclspec.Object(map[string]*hclspec.Spec{
			"b": hclspec.Default(hclspec.Block("", hclspec.Object(nil)), hclspec.Literal("null")),
		}), TrapSchemaNames},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(nil)
			f.schema = func() *basepb.ConfigSchemaResponse { return &basepb.ConfigSchemaResponse{Spec: r.spec} }
			p, err := tryInMemory(t, f, Options{})
			if err == nil {
				defer p.Close()
				if !hasBreach(p, r.trap) {
					t.Errorf("breaches: %v", p.Breaches())
				}
			}
		})
	}
}

// TestTrap17StreamsThatEnd: they are opened again, and each end is a breach.
func TestTrap17StreamsThatEnd(t *testing.T) {
	f := newFake(nil)
	opens := make(chan struct{}, 100)
	f.fingerprint = func(out grpc.ServerStreamingServer[driverpb.FingerprintResponse]) error {
		opens <- struct{}{}
		return out.Send(&driverpb.FingerprintResponse{Health: driverpb.FingerprintResponse_HEALTHY})
	}
	p := inMemory(t, f, Options{})
	<-opens
	<-opens
	if !hasBreach(p, TrapStreamEnds) {
		t.Errorf("breaches: %v", p.Breaches())
	}
}

func TestEvents(t *testing.T) {
	f := newFake(nil)
	f.events = func(out grpc.ServerStreamingServer[driverpb.DriverTaskEvent]) error {
		now := timestamppb.Now()
		err := errors.Join(
			out.Send(&driverpb.DriverTaskEvent{TaskName: "web", Timestamp: now, Message: "unroutable"}),
			out.Send(&driverpb.DriverTaskEvent{AllocId: "a", TaskName: "web", Timestamp: now, Message: "first"}),
			out.Send(&driverpb.DriverTaskEvent{AllocId: "a", TaskName: "web", Timestamp: now, Message: "second", Annotations: map[string]string{"k": "v"}}))
		<-out.Context().Done()
		return err
	}
	got := make(chan Event, 10)
	p := inMemory(t, f, Options{OnEvent: func(e Event) { got <- e }})
	if a, b := <-got, <-got; a.Message != "first" || b.Message != "second" || b.Annotations["k"] != "v" || b.Time.IsZero() {
		t.Errorf("events %+v, %+v", a, b)
	}
	if !hasBreach(p, TrapEvent) {
		t.Errorf("breaches: %v", p.Breaches())
	}
}

func TestConfigErrors(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	_, err := p.EncodeTaskConfig(deadline(t), map[string]any{"comand": "x", "cout": 1, "count": "y"}, Scope{})
	var bad *ConfigError
	if !errors.As(err, &bad) || len(bad.Problems) < 3 || bad.What != "task config" {
		t.Fatalf("error %v", err)
	}
	for _, text := range []string{`"comand"`, `"cout"`, `"command"`} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not name %s", err, text)
		}
	}
	if _, err := p.EncodeTaskConfig(deadline(t), nil, Scope{}); err == nil {
		t.Error("trap 33: a task without config was taken")
	}
	data, err := p.EncodeTaskConfig(deadline(t),
		map[string]any{"command": "${NOMAD_TASK_NAME} on ${attr.driver.fake.version}"},
		Scope{Env: map[string]string{"NOMAD_TASK_NAME": "web"}})
	if err != nil {
		eventually(t, "the fingerprint", func() bool { return p.NodeAttributes()["driver.fake.version"] != "" })
		data, err = p.EncodeTaskConfig(deadline(t),
			map[string]any{"command": "${NOMAD_TASK_NAME} on ${attr.driver.fake.version}"},
			Scope{Env: map[string]string{"NOMAD_TASK_NAME": "web"}})
	}
	if err != nil || !bytes.Contains(data, []byte("web on 0.1")) {
		t.Errorf("encoded %q, %v", data, err)
	}
}

func TestStartErrorsReachTheAuthor(t *testing.T) {
	f := newFake(nil)
	p := inMemory(t, f, Options{})
	for _, recoverable := range []bool{true, false} {
		f.startErr = wire.Recoverable(errors.New("no such image"), recoverable)
		_, err := startPlain(t, p)
		if IsRecoverable(err) != recoverable || ErrorText(err) != "no such image" {
			t.Errorf("error %v", err)
		}
		if want := "rpc error: code = FailedPrecondition desc = no such image"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestPlainCalls(t *testing.T) {
	f := newFake(nil)
	p := inMemory(t, f, Options{})
	ctx := deadline(t)
	caps, err := p.Capabilities(ctx)
	if err != nil || caps.FSIsolation != IsolationImage || !caps.Exec || !slices.Equal(caps.NetworkModes, []NetworkMode{NetworkGroup}) {
		t.Errorf("capabilities %+v, %v", caps, err)
	}
	id, err := startPlain(t, p)
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.InspectTask(ctx, id)
	if err != nil || st.State != TaskRunning || st.StartedAt.IsZero() || !st.CompletedAt.IsZero() || st.Attributes["pid"] != "0" {
		t.Errorf("status %+v, %v", st, err)
	}
	if err := p.SignalTask(ctx, id, "SIGHUP"); err != nil {
		t.Error(err)
	}
	if err := p.SignalTask(ctx, id, "nonsense"); err == nil {
		t.Error("an unknown signal was taken")
	}
	ex, err := p.ExecTask(ctx, id, []string{"a", "b"}, time.Second)
	if err != nil || string(ex.Stdout) != "a b" || string(ex.Stderr) != "e" || ex.Exit.ExitCode != 3 {
		t.Errorf("exec %+v, %v", ex, err)
	}
	spec, created, err := p.CreateNetwork(ctx, "a1", "h")
	if err != nil || !created || spec.Mode != NetworkGroup || spec.Path != "/var/run/netns/a1" || spec.HostsHostname != "h" {
		t.Errorf("network %+v, %v, %v", spec, created, err)
	}
	if err := p.DestroyNetwork(ctx, "a1", spec); err != nil {
		t.Error(err)
	}
	if err := p.DestroyTask(ctx, id, true); err != nil {
		t.Error(err)
	}
	if b := p.Breaches(); len(b) != 0 {
		t.Errorf("breaches: %v", b)
	}
}

func TestCallsAfterClose(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	p.Close()
	p.Close()
	if _, err := p.Capabilities(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
	if _, err := p.Fingerprint(t.Context()); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func TestExecStreaming(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	var out, errs bytes.Buffer
	resize := make(chan TerminalSize)
	in, feed := io.Pipe()
	go func() {
		resize <- TerminalSize{Height: 24, Width: 80}
		close(resize)
		_, _ = io.WriteString(feed, "hello ")
		_, _ = io.WriteString(feed, "world")
		_ = feed.Close()
	}()
	exit, err := p.ExecTaskStreaming(deadline(t), ExecRequest{
		TaskID: "x", Command: []string{"cat"}, TTY: true, Stdin: in, Stdout: &out, Stderr: &errs, Resize: resize,
		Heartbeat: time.Hour,
	})
	if err != nil || exit.ExitCode != 43 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if out.String() != "hello world" || errs.String() != "24x80 " {
		t.Errorf("output %q, %q", out.String(), errs.String())
	}
	if exit, err := p.ExecTaskStreaming(deadline(t), ExecRequest{TaskID: "x", Command: []string{"true"}}); err != nil || exit.ExitCode != 43 {
		t.Errorf("without input: %+v, %v", exit, err)
	}
}

// TestTrap40Heartbeat: a client sends empty messages while nothing else happens.
func TestTrap40Heartbeat(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	in, feed := io.Pipe()
	beats := writerFunc(func(data []byte) {
		if bytes.Contains(data, []byte("beat")) {
			_ = feed.Close()
		}
	})
	exit, err := p.ExecTaskStreaming(deadline(t), ExecRequest{
		TaskID: "x", Stdin: in, Stderr: beats, Heartbeat: time.Millisecond,
	})
	if err != nil || exit.ExitCode != 43 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestTrap40ExecEndings(t *testing.T) {
	type stream = grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]
	type answer = driverpb.ExecTaskStreamingResponse
	data := &driverpb.ExecTaskStreamingIOOperation{Data: []byte("x")}
	exited := &answer{Exited: true, Result: &driverpb.ExitResult{ExitCode: 4}}
	send := func(all ...*answer) func(stream) error {
		return func(s stream) error {
			for _, a := range all {
				if err := s.Send(a); err != nil {
					return err
				}
			}
			return nil
		}
	}
	rows := []struct {
		name   string
		stream func(stream) error
		fails  bool
		breach bool
	}{
		{"good", send(&answer{Stdout: data}, exited), false, false},
		{"no exit message", send(&answer{Stdout: data}), true, true},
		{"exit without result", send(&answer{Exited: true}), true, true},
		{"output after exit", send(exited, &answer{Stdout: data}), true, true},
		{"two things in one message", send(&answer{Stdout: data, Stderr: data}, exited), false, true},
		{"error", func(stream) error { return errors.New("no such task") }, true, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			f := newFake(nil)
			f.execStream = r.stream
			p := inMemory(t, f, Options{})
			exit, err := p.ExecTaskStreaming(deadline(t), ExecRequest{TaskID: "x", Stdout: io.Discard})
			if (err != nil) != r.fails || (!r.fails && exit.ExitCode != 4) {
				t.Errorf("exit %+v, error %v", exit, err)
			}
			if hasBreach(p, TrapExecEnd) != r.breach {
				t.Errorf("breaches: %v", p.Breaches())
			}
		})
	}
}

func TestExecUserLeaves(t *testing.T) {
	f := newFake(nil)
	left := make(chan struct{})
	f.execStream = func(s grpc.BidiStreamingServer[driverpb.ExecTaskStreamingRequest, driverpb.ExecTaskStreamingResponse]) error {
		<-s.Context().Done()
		close(left)
		return s.Context().Err()
	}
	p := inMemory(t, f, Options{})
	ctx, cancel := context.WithCancel(deadline(t))
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := p.ExecTaskStreaming(ctx, ExecRequest{TaskID: "x", TTY: true}); err == nil {
		t.Error("no error for a user who left")
	}
	<-left
	if b := p.Breaches(); len(b) != 0 {
		t.Errorf("breaches: %v", b)
	}
}

// TestRelaunchFails: calls meanwhile say so, and the client goes on trying.
func TestRelaunchFails(t *testing.T) {
	f := newFake(nil)
	p := inMemory(t, f, Options{RelaunchWait: time.Millisecond})
	var broken atomic.Bool
	broken.Store(true)
	f.setConfig = func(bool) error {
		if broken.Load() {
			return errors.New("config went away")
		}
		return nil
	}
	if err := p.Crash(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the error of a failed relaunch", func() bool {
		_, err := p.Capabilities(t.Context())
		return errors.Is(err, ErrPluginGone) && strings.Contains(err.Error(), "config went away")
	})
	broken.Store(false)
	eventually(t, "a plugin that works", func() bool { _, err := p.Capabilities(t.Context()); return err == nil })
	if f, err := p.Fingerprint(deadline(t)); err != nil {
		t.Errorf("fingerprint %+v, %v", f, err)
	}
}

// TestInMemoryCrash: the server is made anew and the task recovered, without any process.
func TestInMemoryCrash(t *testing.T) {
	var servers []*fake
	p, err := InMemory(deadline(t), func(log hclog.Logger) wire.Server {
		f := newFake(log)
		servers = append(servers, f)
		return f
	}, Options{Log: t.Output(), LogLevel: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	task := startShell(t, p, "sleep 3600")
	if err := p.Crash(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "recovery", func() bool { return p.Launches() == 2 })
	eventually(t, "the task known again", func() bool { _, err := p.InspectTask(t.Context(), task.ID()); return err == nil })
	if err := task.Stop(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if exit, err := task.Wait(deadline(t)); err != nil || exit.ExitCode != 137 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if len(servers) != 4 {
		t.Errorf("%d servers, want two to load, one and one more", len(servers))
	}
}
