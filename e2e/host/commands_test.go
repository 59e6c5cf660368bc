package host

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// TestDoctorDeepProbesEveryClass: the one command for whoever
// installed a runtime. Each class's probe really runs, and nothing is left.
func TestDoctorDeepProbesEveryClass(t *testing.T) {
	r := installation(t, "doctor", "-deep", "-json")
	var out struct {
		Worst    string
		Findings []struct{ ID, Severity, Subject, Text, Remedy string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
	for _, rt := range testenv.Runtimes(t) {
		subject := "class " + testenv.Class(rt)
		i := slices.IndexFunc(out.Findings, func(f struct{ ID, Severity, Subject, Text, Remedy string }) bool {
			return f.Subject == subject
		})
		if i < 0 || out.Findings[i].ID != "class" || !strings.Contains(out.Findings[i].Text, "works with runtime "+rt) {
			t.Errorf("%s: %+v", subject, out.Findings)
		}
	}
	if want := map[string]int{"error": 1}[out.Worst]; r.code != want {
		t.Errorf("exit code %d with the worst finding %s", r.code, out.Worst)
	}
}

// TestValidateAsksThisHost: a class is judged by the engine's
// runtimes and an image by what is in its store, and nothing is made.
func TestValidateAsksThisHost(t *testing.T) {
	image := testenv.Image(t)
	config := filepath.Join(t.TempDir(), "plugin.hcl")
	if err := os.WriteFile(config, []byte("endpoint = \""+testenv.Engine(t)+"\"\nconfinement {\n  runtimes {\n    CC3 = \"kata-absent\"\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		class string
		code  int
		want  string
	}{
		{"CC1", 0, "ok, 1 task"},
		{"CC3", 1, "confinement = \"CC3\": confinement class not available: CC3 is pinned to runtime \"kata-absent\", which the engine does not have"},
	} {
		cmd := exec.CommandContext(t.Context(), testenv.Driver(t), "validate", "-plugin-config", config,
			"-var", "image="+image, "-var", "class="+c.class, job(t, "jobs", "hello.nomad.hcl"))
		out, _ := cmd.CombinedOutput() // the exit code is looked at
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "not asked") {
			t.Errorf("%s: exit code %d\n%s", c.class, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// showsOneRun looks at the installation of a run under way as ps does (K40).
func showsOneRun(t *testing.T, run *exec.Cmd, class string) {
	t.Helper()
	tmp := strings.TrimPrefix(run.Env[len(run.Env)-1], "TMPDIR=")
	dirs, err := filepath.Glob(filepath.Join(tmp, "*", "data"))
	if err != nil || len(dirs) != 1 {
		t.Errorf("data dirs: %v, %v", dirs, err)
		return
	}
	config := filepath.Join(t.TempDir(), "plugin.hcl")
	text := fmt.Sprintf("endpoint = %q\ndata_dir = %q\nslots = 3\n", testenv.Engine(t), dirs[0])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Error(err)
		return
	}
	out, err := exec.CommandContext(t.Context(), testenv.Driver(t), "ps", "-json", "-plugin-config", config).CombinedOutput()
	var list struct {
		Runs            []struct{ State, Class, Job, Task string }
		Slots, Networks struct{ Used, Total int }
		Capacity        string
	}
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil || len(list.Runs) != 1 || list.Slots.Used != 1 || list.Slots.Total != 3 || list.Networks.Used < 1 || list.Capacity != "ok" {
		t.Errorf("%v\n%s", err, out)
		return
	}
	if r := list.Runs[0]; r.State != "running" || r.Class != class || r.Job != "signals" || r.Task == "" {
		t.Errorf("%+v", r)
	}
}
