package jobfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

func TestFilesThatAreNoJob(t *testing.T) {
	for name, c := range map[string]struct{ file, src, want string }{
		"empty":      {"e.hcl", "", "there is no job block"},
		"json":       {"e.json", "{}", "job files in JSON are not read"},
		"syntax":     {"e.hcl", "job \"x\" {", "e.hcl:1: "},
		"two jobs":   {"e.hcl", "job \"a\" {}\njob \"b\" {}\n", "e.hcl:2: the file: a second job block, the first is at e.hcl:1"},
		"no label":   {"e.hcl", "job {}\n", "a job block has one label"},
		"attribute":  {"e.hcl", "job = 1\n", "job is a block"},
		"stray name": {"e.hcl", "jbo \"x\" {}\n", `there is no "jbo" here; did you mean "job"?`},
	} {
		job, err := jobfile.Parse(c.file, []byte(c.src), jobfile.Options{})
		if err == nil || job != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: job %v, error %v; want %q", name, job, err, c.want)
		}
	}
}

// TestRefusalKeepsJob: who only wants to look at a job gets it beside what run
// would refuse, but never beside a mistake.
func TestRefusalKeepsJob(t *testing.T) {
	task := "task \"t\" {\n driver = \"wardyn\"\n config {\n image = \"x\"\n }\n %s }\n"
	read := func(extra string) (*jobfile.Job, error) {
		src := "job \"j\" {\n group \"g\" {\n" + strings.Replace(task, "%s", extra, 1) + "}\n}\n"
		return jobfile.Parse("j.hcl", []byte(src), jobfile.Options{})
	}
	job, err := read("vault {}\n")
	var e *jobfile.Error
	if !errors.As(err, &e) || e.Faulty() || job == nil || job.Groups[0].Tasks[0].Name != "t" {
		t.Errorf("refused: job %v, error %v", job, err)
	}
	if job, err = read("vault {}\n kill_timeout = \"x\"\n"); job != nil || !errors.As(err, &e) || !e.Faulty() || len(e.Problems) != 2 {
		t.Errorf("faulty: job %v, error %v", job, err)
	}
}

// TestFilePaths: file() starts at the job file's folder, wherever that is
// called from, and the problem names the path as it was given.
func TestFilePaths(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("motd", "hi")
	job := func(expr string) string {
		return "job \"j\" {\n group \"g\" {\n task \"t\" {\n driver = \"wardyn\"\n config {\n x = " + expr + "\n }\n }\n }\n}\n"
	}
	good, err := jobfile.ParseFile(write("good.hcl", job(`file("motd")`)), jobfile.Options{})
	if err != nil || good.Groups[0].Tasks[0].Config["x"] != "hi" {
		t.Errorf("job %v, error %v", good, err)
	}
	bad := write("bad.hcl", job(`file("absent")`))
	if _, err := jobfile.ParseFile(bad, jobfile.Options{}); err == nil || !strings.Contains(err.Error(), bad+":6: ") {
		t.Errorf("error %v does not name %s:6", err, bad)
	}
	if _, err := jobfile.ParseFile(filepath.Join(dir, "none.hcl"), jobfile.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}
