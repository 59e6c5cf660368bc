package host

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
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

// TestCrashBeforeTheWait: a plugin that dies between the start of a task and the wait for it
// has died for that wait, although its successor answers: the task is not over, but to be
// recovered.
func TestCrashBeforeTheWait(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	task := startShell(t, p, "sleep 3600") // whose own wait may come first or not
	cfg := task.Handle().Config
	cfg.ID += "x"
	handle, _, err := p.StartTask(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Crash(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another plugin", func() bool { return p.Launches() == 2 })
	if _, err := p.WaitTask(deadline(t), cfg.ID); !errors.Is(err, ErrPluginGone) {
		t.Errorf("wait: %v", err)
	}
	if err := p.RecoverTask(deadline(t), handle); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := p.WaitTask(t.Context(), cfg.ID); ended <- err }()
	if err := errors.Join(p.StopTask(deadline(t), cfg.ID, 0, "SIGKILL"), <-ended, p.DestroyTask(deadline(t), cfg.ID, true), task.Stop(deadline(t))); err != nil {
		t.Error(err)
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
