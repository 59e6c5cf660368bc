package host

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
)

// deadline bounds what a test waits for; nothing is measured against it.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := deadline(t)
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// launch starts this test binary as a plugin process. dir is where it records its calls.
func launch(t *testing.T, o Options) (p *Plugin, dir string) {
	t.Helper()
	o, dir = processOptions(t, o)
	p, err := Launch(deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, dir
}

func processOptions(t *testing.T, o Options) (Options, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o.Path = self
	o.Env = append(o.Env, fakeDir+"="+dir, "TMPDIR="+dir, "PATH="+os.Getenv("PATH"))
	o.Log, o.LogLevel = t.Output(), "warn"
	return o, dir
}

// methods are the recorded calls of one process in order, the two streams (which open
// concurrently) sorted.
func methods(t *testing.T, dir string, pid int) []string {
	t.Helper()
	var out []string
	for _, c := range calls(t, dir) {
		if c.Pid == pid && c.Method != "environ" {
			out = append(out, c.Method)
		}
	}
	if i := slices.Index(out, "TaskEvents"); i > 0 && out[i-1] == "Fingerprint" {
		out[i-1], out[i] = out[i], out[i-1]
	}
	return out
}

// pids are the recorded processes in the order of their start.
func pids(t *testing.T, dir string) []int {
	t.Helper()
	var out []int
	for _, c := range calls(t, dir) {
		if !slices.Contains(out, c.Pid) {
			out = append(out, c.Pid)
		}
	}
	return out
}

func opened(t *testing.T, dir string, pid int) bool {
	t.Helper()
	m := methods(t, dir, pid)
	return slices.Contains(m, "Fingerprint") && slices.Contains(m, "TaskEvents")
}

// TestTrap21CallOrder: three processes, called in the order and with the arguments of an agent.
func TestTrap21CallOrder(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run("legacy "+strconv.FormatBool(legacy), func(t *testing.T) {
			p, dir := launch(t, Options{Legacy: legacy, PluginConfig: map[string]any{"level": 7}})
			if _, err := p.Fingerprint(deadline(t)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "both streams open", func() bool { return opened(t, dir, p.Pid()) })
			pid := p.Pid()
			p.Close()

			lasting := []string{"SetConfig", "Init", "TaskEvents", "Fingerprint", "Shutdown"}
			if legacy {
				lasting = []string{"SetConfig", "TaskEvents", "Fingerprint"}
			}
			all := pids(t, dir)
			if len(all) != 3 || all[2] != pid {
				t.Fatalf("processes %v, the lasting one is %d", all, pid)
			}
			for i, want := range [][]string{{"PluginInfo", "ConfigSchema"}, {"SetConfig", "SetConfig"}, lasting} {
				if got := methods(t, dir, all[i]); !slices.Equal(got, want) {
					t.Errorf("process %d: %v, want %v", i, got, want)
				}
			}
			checkSetConfigs(t, calls(t, dir), legacy)
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the plugin is still there after Close: %v", err)
			}
		})
	}
}

func checkSetConfigs(t *testing.T, all []fakeCall, legacy bool) {
	t.Helper()
	var seen int
	for _, c := range all {
		if c.Method != "SetConfig" {
			continue
		}
		seen++
		d := c.Detail.(map[string]any)
		lasting := seen == 3
		if d["level"] != 7.0 || d["api"] != "v0.1.0" || d["nomad"] != lasting {
			t.Errorf("SetConfig %d: %v", seen, d)
		}
		if hasCores := d["cores"] != 0.0; hasCores != (lasting && !legacy) {
			t.Errorf("SetConfig %d has topology %v", seen, d["cores"])
		}
		if lasting && d["ports"] != 14000.0 {
			t.Errorf("port range begins at %v", d["ports"])
		}
	}
}

// TestProcessEnvironment: what a client sets is set, and nothing else.
func TestProcessEnvironment(t *testing.T) {
	p, dir := launch(t, Options{Env: []string{"OWN=1"}})
	p.Close()
	var got []string
	for _, c := range calls(t, dir) {
		if c.Method == "environ" {
			got = strings.Split(c.Detail.(string), "\n")
		}
	}
	slices.Sort(got)
	var names []string
	for _, kv := range got {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	want := []string{
		"FAKE_DIR", "NOMAD_PLUGIN_MAGIC_COOKIE", "OWN", "PATH", "PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT",
		"PLUGIN_PROTOCOL_VERSIONS", "TMPDIR",
	}
	if !slices.Equal(names, want) {
		t.Errorf("variables %v, want %v", names, want)
	}
	for _, kv := range []string{"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000", "PLUGIN_PROTOCOL_VERSIONS=2"} {
		if !slices.Contains(got, kv) {
			t.Errorf("%s is missing in %v", kv, got)
		}
	}
}

// TestHandshakeLine: the first and only thing on standard output.
func TestHandshakeLine(t *testing.T) {
	o, dir := processOptions(t, Options{})
	p := newProcess(o, []string{
		wire.Handshake.MagicCookieKey + "=" + wire.Handshake.MagicCookieValue, "PLUGIN_PROTOCOL_VERSIONS=2",
	}, &breachLog{})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`^1\|2\|unix\|` + regexp.QuoteMeta(dir) + `/plugin[0-9]+\|grpc\|\n$`); !want.MatchString(line) {
		t.Errorf("handshake %q", line)
	}
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait(t.Context())
}

// TestTrap23AgentCrash: a plugin that is left behind by a crashed client survives its next log
// line, is found again, keeps its configuration and is initialised again (trap 22).
func TestTrap23AgentCrash(t *testing.T) {
	first, dir := launch(t, Options{PluginConfig: map[string]any{"level": 7}})
	task := startShell(t, first, `sleep 3600`)
	handle, pid := task.Handle(), first.Pid()
	r := first.Detach()
	if r == nil || r.Pid != pid {
		t.Fatalf("Detach: %+v, pid %d", r, pid)
	}
	if _, err := task.Wait(deadline(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("a task of a client that is gone: %v", err)
	}

	o, _ := processOptions(t, Options{Reattach: r, PluginConfig: map[string]any{"level": 8}})
	o.Env = []string{fakeDir + "=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	second, err := Launch(deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	if second.Pid() != pid {
		t.Fatalf("process %d was not found again, got %d", pid, second.Pid())
	}
	// The fake logs each signal it refuses: on a broken pipe by now.
	for range 3 {
		if err := second.SignalTask(deadline(t), handle.Config.ID, "nonsense"); err == nil {
			t.Fatal("an unknown signal was taken")
		}
	}
	if err := second.RecoverTask(deadline(t), handle.Persisted()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "streams open again", func() bool {
		m := methods(t, dir, pid)
		return len(m) > 0 && m[len(m)-1] == "RecoverTask" && count(m, "Fingerprint") == 2 && count(m, "TaskEvents") == 2
	})
	m := methods(t, dir, pid)
	if count(m, "SetConfig") != 1 || count(m, "Init") != 2 || count(m, "PluginInfo") != 1 {
		t.Errorf("calls of the process: %v", m)
	}
	if err := second.DestroyTask(deadline(t), handle.Config.ID, true); err != nil {
		t.Error(err)
	}
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

func TestReattachToNothingStartsAnew(t *testing.T) {
	p, _ := launch(t, Options{Reattach: &Reattach{Network: "unix", Addr: filepath.Join(t.TempDir(), "gone"), Pid: 1 << 22}})
	if p.Pid() == 0 || p.Pid() == 1<<22 {
		t.Errorf("pid %d", p.Pid())
	}
}

// TestLeftovers: neither an orderly end nor a crash leaves sockets or folders behind.
func TestLeftovers(t *testing.T) {
	p, dir := launch(t, Options{})
	if err := p.Crash(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a second launch", func() bool { return p.Launches() == 2 })
	p.Close()
	eventually(t, "nothing but the record", func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) == 1
	})
}

func TestLaunchFailures(t *testing.T) {
	rows := []struct {
		name    string
		prepare func(*Options)
		says    string
	}{
		{"no such file", func(o *Options) { o.Path = "/nonexistent/plugin" }, "/nonexistent/plugin"},
		{"no plugin", func(o *Options) { o.Path = "/bin/true" }, "handshake"},
		{"talks first", func(o *Options) { o.Path = "/bin/echo"; o.Args = []string{"hello"} }, "hello"},
		{"unknown key", func(o *Options) { o.PluginConfig = map[string]any{"lvl": 1} }, `"lvl"`},
		{"template", func(o *Options) { o.PluginConfig = map[string]any{"level": "${x}"} }, "ariables"},
		{"refused", func(o *Options) { o.PluginConfig = map[string]any{"trouble": "refuse"} }, "the level is too high"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			o, _ := processOptions(t, Options{})
			r.prepare(&o)
			p, err := Launch(deadline(t), o)
			if err == nil {
				p.Close()
				t.Fatal("launched")
			}
			if !strings.Contains(err.Error(), r.says) {
				t.Errorf("%q does not say %q", err, r.says)
			}
		})
	}
}

// TestTrap4HostileLogLine: the line is reported and the client lives on.
func TestTrap4HostileLogLine(t *testing.T) {
	p, _ := launch(t, Options{PluginConfig: map[string]any{"trouble": "log line"}})
	eventually(t, "the breach", func() bool { return hasBreach(p, TrapLogLine) })
	if _, err := p.Fingerprint(deadline(t)); err != nil {
		t.Error(err)
	}
}

// TestTrap24InheritedPipe: a child that holds the plugin's standard error is reported, and
// does not keep the client from noticing the plugin's end.
func TestTrap24InheritedPipe(t *testing.T) {
	p, dir := launch(t, Options{PluginConfig: map[string]any{"trouble": "inherited pipe"}})
	p.Close()
	if !hasBreach(p, TrapInheritedPipe) {
		t.Errorf("breaches: %v", p.Breaches())
	}
	data, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func hasBreach(p *Plugin, trap Trap) bool {
	return slices.ContainsFunc(p.Breaches(), func(b Breach) bool { return b.Trap == trap })
}
