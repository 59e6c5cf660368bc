package jobfile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden reads every job file of testdata. What comes of it stands beside
// it: FILE.json for the job, FILE.err for the problems; a refused job has both.
// A first line "# -var a=b" passes variables.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.hcl")
	shapes, err2 := filepath.Glob("testdata/shapes/*.hcl")
	if err := errors.Join(err, err2); err != nil || len(files) < 7 || len(shapes) != 10 {
		t.Fatalf("%d files, %d shapes, %v", len(files), len(shapes), err)
	}
	for _, file := range append(files, shapes...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			job, err := jobfile.Parse(filepath.Base(file), src, jobfile.Options{
				Values: jobfile.Values{Given: varsOf(src)},
				Dir:    "testdata",
			})
			var problems *jobfile.Error
			if err != nil && !errors.As(err, &problems) {
				t.Fatalf("Parse returned %T: %v", err, err)
			}
			if (job == nil) != (problems != nil && problems.Faulty()) {
				t.Errorf("job %v beside the problems %v", job, err)
			}
			base := strings.TrimSuffix(file, ".hcl")
			golden(t, base+".json", jsonOf(t, job))
			text := ""
			if err != nil {
				text = err.Error() + "\n"
			}
			golden(t, base+".err", text)
		})
	}
}

func varsOf(src []byte) map[string]string {
	first, _, _ := bytes.Cut(src, []byte("\n"))
	vars := map[string]string{}
	words := strings.Fields(string(first))
	for i, w := range words {
		if w == "-var" {
			k, v, _ := strings.Cut(words[i+1], "=")
			vars[k] = v
		}
	}
	return vars
}

func jsonOf(t *testing.T, job *jobfile.Job) string {
	t.Helper()
	if job == nil {
		return ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(job); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares a text with a file that is absent when the text is empty.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		os.Remove(path)
		if got != "" {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}
