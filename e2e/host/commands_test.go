package host

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// TestDoctorDeepProbesEveryClass (issue 4 item 9): the one command for whoever
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
		subject := "class " + classOf[rt]
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

// TestValidateAsksThisHost (issue 3 item 8): a class is judged by the engine's
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
		cmd := exec.CommandContext(t.Context(), driver(t), "validate", "-plugin-config", config,
			"-var", "image="+image, "-var", "class="+c.class, job(t, "jobs", "hello.nomad.hcl"))
		out, _ := cmd.CombinedOutput() // the exit code is looked at
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "not asked") {
			t.Errorf("%s: exit code %d\n%s", c.class, cmd.ProcessState.ExitCode(), out)
		}
	}
}
