package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJobShapes: what each job written for another driver is told, word for
// word, under an operator who opened nothing and under one who opened what the
// shapes need.
func TestJobShapes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "jobfile", "testdata", "shapes", "*.nomad.hcl"))
	if err != nil || len(files) != 10 {
		t.Fatalf("%d shapes, %v; want 10", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".nomad.hcl")
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			for _, operator := range []string{"closed", "open"} {
				config := filepath.Join("testdata", "shapes", operator+".hcl")
				_, stdout, stderr := checkCall(t, nil, "validate", "-offline", "-plugin-config", config, file)
				said.WriteString("# " + operator + "\n" + stdout + stderr)
			}
			golden := filepath.Join("testdata", "shapes", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(said.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil || said.String() != string(want) {
				t.Errorf("%v; said:\n%s", err, said.String())
			}
		})
	}
}
