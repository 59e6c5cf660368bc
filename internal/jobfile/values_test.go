package jobfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

const valuesJob = `variable "image" {
  type = string
}
variable "list" {
  type    = list(string)
  default = []
}
variable "any" {
  default = "unset"
}
job "j" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image = var.image
        args  = var.list
        any   = var.any
      }
    }
  }
}
`

func valueFiles(t *testing.T, texts map[string]string) func(name string) string {
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string { return filepath.Join(dir, name) }
}

// TestWhichValueHolds: the environment yields to files, an earlier file to a
// later, and all to the command line; what is declared nowhere in the
// environment is nobody's fault.
func TestWhichValueHolds(t *testing.T) {
	at := valueFiles(t, map[string]string{
		"a.hcl":  "image = \"from-a\"\nlist = [\"a\"]\n",
		"b.json": `{"image": "from-b"}`,
	})
	env := func(vars map[string]string) func(string) (string, bool) {
		return func(key string) (string, bool) { v, ok := vars[key]; return v, ok }
	}
	for name, c := range map[string]struct {
		in    jobfile.Values
		image string
		list  []any
		any   string
	}{
		"environment": {jobfile.Values{LookupEnv: env(map[string]string{"NOMAD_VAR_image": "from-env", "NOMAD_VAR_list": `["e"]`, "NOMAD_VAR_any": "", "NOMAD_VAR_other": "x"})}, "from-env", []any{"e"}, ""},
		"file":        {jobfile.Values{Files: []string{at("a.hcl")}, LookupEnv: env(map[string]string{"NOMAD_VAR_image": "from-env"})}, "from-a", []any{"a"}, "unset"},
		"later file":  {jobfile.Values{Files: []string{at("a.hcl"), at("b.json")}}, "from-b", []any{"a"}, "unset"},
		"given":       {jobfile.Values{Files: []string{at("b.json"), at("a.hcl")}, Given: map[string]string{"image": "given"}}, "given", []any{"a"}, "unset"},
	} {
		job, err := jobfile.Parse("j.hcl", []byte(valuesJob), jobfile.Options{Values: c.in})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		config := job.Groups[0].Tasks[0].Config
		list, _ := config["args"].([]any)
		if config["image"] != c.image || len(list) != len(c.list) || len(list) == 1 && list[0] != c.list[0] || config["any"] != c.any {
			t.Errorf("%s: %v", name, config)
		}
	}
}

// TestFaultsOfValues: a fault is told with the file of values and its line.
func TestFaultsOfValues(t *testing.T) {
	at := valueFiles(t, map[string]string{
		"wrong.hcl":    "image = \"x\"\n\nimagee = \"y\"\nlist = 3\nany = file(\"/etc/hostname\")\n",
		"declares.hcl": "variable \"image\" {\n  default = \"x\"\n}\nimage = \"y\"\n",
		"syntax.hcl":   "image = \n",
		"syntax.json":  "{",
	})
	for file, want := range map[string][]string{
		"wrong.hcl":    {`wrong.hcl:3: the job file declares no variable "imagee"; did you mean "image"?`, "wrong.hcl:4: variable \"list\": ", "wrong.hcl:5: Function calls not allowed"},
		"declares.hcl": {`declares.hcl:1: a file of values sets variables; declare "image" in the job file, and write here: image = VALUE`},
		"syntax.hcl":   {"syntax.hcl:1: "},
		"syntax.json":  {"syntax.json:1: "},
	} {
		job, err := jobfile.Parse("j.hcl", []byte(valuesJob), jobfile.Options{Values: jobfile.Values{Files: []string{at(file)}}})
		var bad *jobfile.Error
		if job != nil || !errors.As(err, &bad) {
			t.Errorf("%s: %v, %v", file, job, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v lacks %q", file, err, w)
			}
		}
	}
	absent := jobfile.Values{Files: []string{at("absent.hcl")}}
	if _, err := jobfile.Parse("j.hcl", []byte(valuesJob), jobfile.Options{Values: absent}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	lenient := jobfile.Values{Files: []string{at("lenient.hcl")}, Given: map[string]string{"image": "x", "imagee": "y"}, Lenient: true}
	if err := os.WriteFile(at("lenient.hcl"), []byte("imageee = \"z\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := jobfile.Parse("j.hcl", []byte(valuesJob), jobfile.Options{Values: lenient}); err != nil {
		t.Errorf("lenient: %v", err)
	}
}
