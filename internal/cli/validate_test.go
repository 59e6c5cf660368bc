package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// askable is a node with CC1 only, whose engine has no image but present:1.
func askable(context.Context, plugin.HostConfig) (*Node, error) {
	return &Node{
		View: plugin.NodeView{
			CPUs: 2, MemoryMiB: 4096, MHz: 4000, Classes: []types.ConfinementClass{types.CC1},
			Why: map[types.ConfinementClass]string{types.CC2: "CC2 needs gVisor"},
		},
		Check: func(_ context.Context, r plugin.Review) ([]plugin.Fault, string) {
			switch r.Sandbox.Image {
			case "present:1":
				return nil, ""
			case "foreign:1":
				return []plugin.Fault{{Field: "image", Reason: "it is for linux/s390x"}}, ""
			case "":
				return []plugin.Fault{{Field: "image", Reason: "asked about none"}}, ""
			}
			return nil, "the image is not on this host"
		},
		Close: func() {},
	}, nil
}

// unaskable is an engine that is away.
func unaskable(context.Context, plugin.HostConfig) (*Node, error) {
	return nil, errors.New("nobody answers")
}

// checkCall runs validate or explain.
func checkCall(t *testing.T, node func(context.Context, plugin.HostConfig) (*Node, error), args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := testEnv(&out, &errs, args...)
	e.Node = node
	return Main(t.Context(), e), out.String(), errs.String()
}

func writeJob(t *testing.T, config string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.nomad.hcl")
	text := "variable \"v\" { default = \"present:1\" }\njob \"j\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"wardyn\"\n      config {\n" + config + "\n      }\n    }\n  }\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reasons is what stands behind an option in a report: others' words, which
// their own tests look after.
var reasons = regexp.MustCompile(`(?m)^([^:]+:\d+: task "\w+": [\w.]+(?: = (?:"[^"]*"|\w+))?): .*$`)

// TestValidateReportsEverythingWithItsLine (K7): one golden
// report for a file with every kind of fault, offline.
func TestValidateReportsEverythingWithItsLine(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "validate"))
	code, stdout, stderr := checkCall(t, nil, "validate", "-offline", "-plugin-config", "agent.hcl", "bad.nomad.hcl")
	stdout = reasons.ReplaceAllString(stdout, "$1")
	want, err := os.ReadFile("bad.txt")
	if *update {
		err = os.WriteFile("bad.txt", []byte(stdout), 0o644)
		want = []byte(stdout)
	}
	if err != nil || code != exitFailed || stderr != "" || stdout != string(want) {
		t.Errorf("exit %d, %v, stderr %q, stdout:\n%s", code, err, stderr, stdout)
	}
}

func TestValidateExitCodes(t *testing.T) {
	good, bad := writeJob(t, `image = var.v`), writeJob(t, `image = "x y"`)
	for name, c := range map[string]struct {
		args           []string
		node           func(context.Context, plugin.HostConfig) (*Node, error)
		code           int
		stdout, stderr string
	}{
		"good":             {[]string{good}, askable, 0, "ok, 1 task", ""},
		"several":          {[]string{good, bad}, askable, 1, "job.nomad.hcl:7: task \"t\": image = \"x y\": an image name has no blanks", ""},
		"flags behind":     {[]string{good, "-offline"}, unaskable, 0, "not asked: -offline", ""},
		"no engine":        {[]string{good}, unaskable, 0, "not asked: nobody answers", ""},
		"no hook":          {[]string{good}, nil, 0, "not asked: this program was built without", ""},
		"a variable":       {[]string{"-var", "v=absent:1", good}, askable, 0, "note: ", ""},
		"no such variable": {[]string{"-var", "w=1", good}, askable, 1, `declares no variable "w"`, ""},
		"the image":        {[]string{writeJob(t, `image = "foreign:1"`)}, askable, 1, "is for linux/s390x", ""},
		"the class":        {[]string{writeJob(t, "image = \"a\"\nconfinement = \"CC2\"")}, askable, 1, ":8: task \"t\": confinement = \"CC2\": CC2 needs gVisor", ""},
		"a function":       {[]string{writeJob(t, `image = bcrypt("x")`)}, askable, 0, "note: ", ""},
		"a fact":           {[]string{writeJob(t, `image = "${meta.image}"`)}, askable, 0, "note: ", ""},
		"what is unread":   {[]string{writeJob(t, `image = upper(1, 2)`)}, unaskable, 1, "job.nomad.hcl: 1 fault\n", ""},
		"absent file":      {[]string{good, "/nonexistent.hcl"}, askable, 2, "ok, 1 task", "no such file"},
		"JSON":             {[]string{"job.json"}, askable, 2, "", "in JSON are not read"},
		"nothing":          {nil, askable, 2, "", "which job file"},
		"absent config":    {[]string{"-plugin-config", "/nonexistent.hcl"}, nil, 2, "", "no such file"},
		"config alone":     {[]string{"-plugin-config", filepath.Join("testdata", "validate", "agent.hcl")}, nil, 1, "agent.hcl:11: data_dirr: there is no option of this name; did you mean data_dir?", ""},
	} {
		code, stdout, stderr := checkCall(t, c.node, append([]string{"validate"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("%s: exit %d\nstdout: %s\nstderr: %s", name, code, stdout, stderr)
		}
	}
}

func TestValidateJSON(t *testing.T) {
	bad := writeJob(t, `imag = "x"`)
	code, stdout, _ := checkCall(t, unaskable, "validate", "-json", bad)
	var out checked
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != exitFailed || out.Host != "nobody answers" || len(out.Files) != 1 {
		t.Fatalf("exit %d, %v: %s", code, err, stdout)
	}
	f := out.Files[0].Faults
	if len(f) != 2 || f[1].Field != "imag" || f[1].Line != 7 || f[1].Task != "t" || f[1].Fix != "did you mean image?" || f[0].Field != "image" || f[0].Line != 4 {
		t.Errorf("%+v", f)
	}
}

// TestValidateNotesMemoryMax (nomad#10895): where the scheduler does not allow it
// no driver hears of it, so it is said before placement.
func TestValidateNotesMemoryMax(t *testing.T) {
	file := func(resources string) string {
		path := writeJob(t, "image = \"a\"\n}\nresources {\n"+resources)
		return path
	}
	_, with, _ := checkCall(t, nil, "validate", "-offline", file("memory = 64\nmemory_max = 128"))
	_, without, _ := checkCall(t, nil, "validate", "-offline", file("memory = 64"))
	if note := `job.nomad.hcl:11: task "t": memory_max counts where`; !strings.Contains(with, note) || strings.Contains(without, "memory_max") {
		t.Errorf("with:\n%s\nwithout:\n%s", with, without)
	}
}

func TestExplain(t *testing.T) {
	job := writeJob(t, "image = \"present:1\"\ncommand = \"sh\"\negress {\n allow = [\"a.example\"]\n}")
	code, stdout, stderr := checkCall(t, askable, "explain", job)
	for _, want := range []string{`task "t" of group "g"`, "class              CC1", "default: the strongest that works", "allow              a.example", "author"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, %q is not in %s%s", code, want, stdout, stderr)
		}
	}
	code, stdout, _ = checkCall(t, nil, "explain", "-json", "-offline", job)
	var out checked
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != exitOK || len(out.Files) != 1 || len(out.Files[0].Tasks) != 1 ||
		out.Files[0].Tasks[0].Settings[0].Value != "the strongest" {
		t.Errorf("exit %d, %v: %s", code, err, stdout)
	}
	code, stdout, _ = checkCall(t, askable, "explain", writeJob(t, `imag = "x"`))
	if code != exitFailed || !strings.Contains(stdout, "did you mean image?") || strings.Contains(stdout, "sandbox") {
		t.Errorf("exit %d, %s", code, stdout)
	}
	if code, _, stderr := checkCall(t, askable, "explain", "-plugin-config", "x"); code != exitUsage || !strings.Contains(stderr, "which job file") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestValidateShapes: jobs written for the docker driver get the verdict they
// are to get, before placement and without an engine.
func TestValidateShapes(t *testing.T) {
	for shape, want := range map[string][]string{
		"01-web-template-bind":     nil,
		"03-api-drain-canary":      {"89 network_mode"},
		"04-dispatch-batch":        nil,
		"05-periodic-batch":        {"27 volumes"},
		"07-hcl-spelling-matrix":   {"85 port_map"},
		"08-devices-caps":          {"22 privileged", "25 devices", "29 devices", "35 cap_add", "37 security_opt"},
		"10-agent-sandbox-exec":    nil,
		"12-database-script-check": nil,
		"13-workload-identity":     nil,
		"15-init-script-lifecycle": nil,
	} {
		v, err := judge{}.file(t.Context(), filepath.Join("..", "jobfile", "testdata", "shapes", shape+".nomad.hcl"))
		if err != nil {
			t.Errorf("%s: %v", shape, err)
			continue
		}
		var got []string
		for _, f := range v.Faults {
			got = append(got, fmt.Sprint(f.Line, " ", f.Field))
		}
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v", shape, v.Faults)
		}
	}
}

// TestValidateKnowsWhatTheJobGetsFromNomad: ports of the group, volumes and
// devices are judged with the task that uses them.
func TestValidateKnowsWhatTheJobGetsFromNomad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.nomad.hcl")
	text := `job "j" {
  group "g" {
    network {
      port "http" { to = 80 }
    }
    volume "data" {
      type   = "csi"
      source = "d"
    }
    task "t" {
      driver = "wardyn"
      config {
        image = "a"
        ports = ["http", "https"]
      }
      volume_mount {
        volume           = "data"
        destination      = "/proc/x"
      }
      volume_mount {
        volume           = "data"
        destination      = "/data"
        propagation_mode = "bidirectional"
      }
      resources {
        device "nvidia/gpu" {}
      }
    }
  }
}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := judge{}.file(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range v.Faults {
		got = append(got, fmt.Sprint(f.Line, " ", f.Field))
	}
	want := []string{"14 ports", "16 volume_mount", "23 volume_mount.propagation_mode", "26 device"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", v.Faults)
	}
}

// Dynamic blocks are not expanded: that is said of each, and nothing that they may
// make is missed.
func TestValidateDynamicBlocks(t *testing.T) {
	code, stdout, stderr := checkCall(t, nil, "validate", "-offline", filepath.Join("testdata", "validate", "dynamic.nomad.hcl"))
	if said := stdout + stderr; code != exitOK || strings.Count(said, "is not expanded") != 4 ||
		!strings.Contains(said, "ports depends on what only the client knows") || !strings.Contains(said, "args depends on what only the client knows") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}
