package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

var twoClasses = NodeView{CPUs: 8, MHz: 16000, MemoryMiB: 8192, Classes: []types.ConfinementClass{types.CC1, types.CC2}}

func draft(config map[string]any) Draft {
	return Draft{
		Job: "j", Namespace: "default", Group: "g", Name: "t", Config: config, CPU: 100, Memory: 64,
		Env: map[string]string{"NOMAD_META_a_b": "x", "OWN": "y", "NOMAD_TOKEN": "t", "NOMAD_SECRETS_DIR": "/secrets"},
	}
}

// TestReviewFindsEverythingAtOnce (K7, K40): every fault by its option, those
// for which a client would never have called the driver among them.
func TestReviewFindsEverythingAtOnce(t *testing.T) {
	r := ReviewTask(draft(map[string]any{
		"image":      "busybox",
		"imagee":     "x",
		"egress":     []any{map[string]any{"alow": []any{"a.example"}, "deny": []any{"*"}}},
		"args":       "x",
		"command":    "${X:-y}",
		"work_dir":   "${NOMAD_META_a-b}",
		"hostname":   "%{http_code}",
		"privileged": true,
		"pids_limit": "many",
		"volumes":    []any{"/etc:/x", "local/a:/a"},
	}), HostConfig{}, twoClasses)
	var got []string
	for _, f := range r.Faults {
		got = append(got, f.Field+"|"+f.Reason+"|"+f.Fix)
	}
	for _, want := range []string{
		"imagee|there is no option|did you mean image?",
		"egress.alow|there is no option|did you mean allow?",
		"egress.deny||",
		"args|it is of another type: list of string required|write a list",
		`command|it holds "${"|write "$$${"`,
		"work_dir|Unknown variable|a dash becomes an underscore: write ${NOMAD_META_a_b}",
		`hostname|it holds "%{"|write "%%%{"`,
		"privileged||",
		"pids_limit|it is of another type|",
		"volumes||",
	} {
		w := strings.Split(want, "|")
		if !slices.ContainsFunc(got, func(g string) bool {
			p := strings.Split(g, "|")
			return p[0] == w[0] && strings.Contains(p[1], w[1]) && strings.Contains(p[2], w[2])
		}) {
			t.Errorf("no fault %q", want)
		}
	}
	if len(got) != 10 || r.Settings != nil || r.Sandbox != nil {
		t.Errorf("%d faults: %s", len(got), strings.Join(got, "\n"))
	}
}

// What only a client knows is neither right nor wrong before placement.
func TestReviewLeavesOpenWhatANodeDecides(t *testing.T) {
	d := draft(map[string]any{
		"image": "${meta.image}", "pids_limit": "${attr.cpu.numcores}", "hostname": "${env[\"LATER\"]}",
		"command": "${LATER}", "args": []any{"${node.unique.name}"}, "egress": []any{map[string]any{"allow": []any{"${meta.host}"}}},
	})
	d.OpenEnv = true
	r := ReviewTask(d, HostConfig{}, twoClasses)
	if want := []string{"args", "command", "egress", "hostname", "image", "pids_limit"}; len(r.Faults) != 0 || !slices.Equal(r.Unchecked, want) {
		t.Errorf("%v, unchecked %v", r.Faults, r.Unchecked)
	}
	d.OpenEnv = false
	r = ReviewTask(d, HostConfig{}, twoClasses)
	if len(r.Faults) != 2 || r.Faults[0].Field != "command" || r.Faults[1].Field != "hostname" {
		t.Errorf("a closed environment: %v", r.Faults)
	}
}

// TestReviewIsStartTasksOwn: the class is judged by what works on the node.
func TestReviewIsStartTasksOwn(t *testing.T) {
	n := twoClasses
	n.Why = map[types.ConfinementClass]string{types.CC3: "no Kata runtime"}
	r := ReviewTask(draft(map[string]any{"image": "busybox", "confinement": "CC3"}), HostConfig{}, n)
	if len(r.Faults) != 1 || r.Faults[0].Reason != "no Kata runtime" || !strings.Contains(r.Faults[0].Fix, "CC1, CC2") {
		t.Errorf("%v", r.Faults)
	}
	d := draft(map[string]any{"image": "busybox"})
	d.User = "0:-1"
	if r := ReviewTask(d, HostConfig{}, twoClasses); len(r.Faults) != 1 || r.Faults[0].Field != "user" {
		t.Errorf("%v", r.Faults)
	}
}

// TestSettings: what holds for a task that uses much, under two operators.
func TestSettings(t *testing.T) {
	job, err := jobfile.ParseFile(filepath.Join("testdata", "settings.hcl"), jobfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	task := job.Groups[0].Tasks[0]
	d := Draft{
		Job: job.ID, Namespace: job.Namespace, Group: "g", Name: task.Name, User: task.User, Config: task.Config,
		Ports:  []DraftPort{{Label: "http", To: 8080}},
		Mounts: []DraftMount{{Target: "/srv/data", ReadOnly: true}},
		CPU:    500, Memory: int64(task.Resources.MemoryMB), MemoryMax: int64(task.Resources.MemoryMaxMB),
		Env: map[string]string{"A_KEY": "very secret", "NOMAD_ALLOC_ID": "x", "NOMAD_TOKEN": "x", "NOMAD_SECRETS_DIR": "/secrets", "https_proxy": "http://10.0.0.1:3128"},
	}
	open := openHost
	open.AllowDomains = append(slices.Clone(open.AllowDomains), "*.example.org")
	var out strings.Builder
	for name, h := range map[string]HostConfig{"open": open} {
		r := ReviewTask(d, h, twoClasses)
		if len(r.Faults) > 0 {
			t.Fatalf("%s: %v", name, r.Faults)
		}
		if err := PrintSettings(&out, r.Settings); err != nil {
			t.Fatal(err)
		}
	}
	plain := ReviewTask(Draft{Name: "t", Config: map[string]any{"image": "busybox"}, Memory: 300, CPU: 100}, HostConfig{}, twoClasses)
	out.WriteString("\n")
	if err := PrintSettings(&out, plain.Settings); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "very secret") {
		t.Error("a value of the environment is shown")
	}
	path := filepath.Join("testdata", "settings.txt")
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != out.String() {
		t.Errorf("%v, got:\n%s", err, out.String())
	}
}

// A script whose file is yet to be rendered is named, not measured.
func TestSettingsOfScriptsToCome(t *testing.T) {
	r := ReviewTask(Draft{Name: "t", Memory: 300, CPU: 100, Namespace: "default", Config: map[string]any{
		"image": "busybox", "setup": []map[string]any{{"file": "local/setup.sh"}}, "init": []map[string]any{{"file": "local/init.sh"}},
	}}, HostConfig{}, twoClasses)
	var out strings.Builder
	if err := PrintSettings(&out, r.Settings); err != nil || len(r.Faults) > 0 {
		t.Fatal(err, r.Faults)
	}
	for _, want := range []string{"the script local/setup.sh, run as root", "the script local/init.sh"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}

// TestReviewHostConfig (K40): unknown keys stop an agent before the plugin is
// asked, so they are explained here.
func TestReviewHostConfig(t *testing.T) {
	h, faults := ReviewHostConfig(map[string]any{
		"data_dirr": "/x", "slots": "four", "endpoint": "tcp://1.2.3.4:2375", "max_pids": 100,
		"confinement": []map[string]any{{"minimun": "CC2", "classes": []any{"CC2"}}},
	})
	var got []string
	for _, f := range faults {
		got = append(got, f.Field+"|"+f.Fix)
	}
	want := []string{
		"confinement.minimun|did you mean minimum?", "data_dirr|did you mean data_dir?", "slots|",
		"endpoint|write unix:///path/to/docker.sock",
	}
	if !slices.Equal(got, want) || h.MaxPids != 100 {
		t.Errorf("%q, %+v", got, h)
	}
	if _, err := ParseHostConfig(map[string]any{"data_dirr": "/x"}); err == nil || !strings.Contains(err.Error(), "did you mean data_dir?") {
		t.Error(err)
	}
}

// What is wrong with a class is told by the option that the job names it with.
func TestClassByRuntime(t *testing.T) {
	ccOne := hostOf(t, map[string]any{"confinement": map[string]any{"classes": []any{"CC1"}}})
	none := NodeView{Classes: []types.ConfinementClass{types.CC1}, Why: map[types.ConfinementClass]string{types.CC2: "no gVisor"}}
	for _, c := range []struct {
		config map[string]any
		host   HostConfig
		node   NodeView
		want   string
	}{
		{map[string]any{"runtime": "runsc"}, ccOne, NodeView{Unasked: true, Classes: node.Classes}, `runtime = "runsc": the operator offers CC1`},
		{map[string]any{"runtime": "runsc"}, closedHost, none, `runtime = "runsc": no gVisor; here works: CC1`},
		{map[string]any{"confinement": "CC2"}, closedHost, none, `confinement = "CC2": no gVisor`},
		{map[string]any{"confinement": "CC2", "runtime": "runsc"}, closedHost, none, `confinement = "CC2": no gVisor`},
	} {
		c.config["image"] = "busybox:1"
		r := ReviewTask(Draft{Name: "t", Config: c.config}, c.host, c.node)
		if len(r.Faults) != 1 || !strings.HasPrefix(r.Faults[0].String(), c.want) {
			t.Errorf("%v: %v, want %q", c.config, r.Faults, c.want)
		}
	}
}

// A mount is told by the option that it is written in.
func TestSettingsOfMounts(t *testing.T) {
	one := func(kv ...string) any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return []any{m}
	}
	config := map[string]any{
		"image": "busybox:1", "volumes": []any{"local/v:/v"}, "tmpfs": []any{"/t"}, "workspace": map[string]any{},
		"mount":  one("type", "bind", "source", "/srv/x", "target", "/b"),
		"mounts": append(one("type", "bind", "source", "local/m", "target", "/m").([]any), one("type", "tmpfs", "target", "/u").([]any)...),
	}
	r := ReviewTask(Draft{Name: "t", Config: config}, hostOf(t, map[string]any{"volumes": map[string]any{"paths": []any{"/srv/x"}}}), NodeView{Unasked: true, Classes: node.Classes})
	want := map[string]string{"/v": "volumes", "/t": "tmpfs", "/m": "mounts", "/u": "mounts", "/b": "mount, which the plugin option volumes allows", "/workspace": "workspace", "/local": ""}
	for _, s := range r.Settings {
		why, asked := want[s.Name]
		if asked && why != s.Why {
			t.Errorf("%s by %q, want %q", s.Name, s.Why, why)
		}
		delete(want, s.Name)
	}
	if len(want) > 0 || len(r.Faults) > 0 {
		t.Errorf("lacks %v, %v", want, r.Faults)
	}
}
