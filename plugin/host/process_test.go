package host

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
)

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
