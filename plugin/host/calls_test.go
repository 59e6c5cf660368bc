package host

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
)

// startPlain starts a task that runs no command.
func startPlain(t *testing.T, p *Plugin) (string, error) {
	t.Helper()
	h, _, err := p.StartTask(deadline(t), TaskConfig{ID: "a/web/1", Name: "web", AllocDir: t.TempDir()})
	return h.Config.ID, err
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
