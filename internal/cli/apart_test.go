package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// TestK33VolumesHoldNothingOfTheRun: a host volume in which the run's own
// folders would lie is refused before one is made, also behind a link.
func TestK33VolumesHoldNothingOfTheRun(t *testing.T) {
	base := t.TempDir()
	temp, data, link := filepath.Join(base, "tmp"), filepath.Join(base, "tmp", "data"), filepath.Join(base, "link")
	for _, dir := range []string{temp, data} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("tmp", link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	for name, c := range map[string]struct {
		volume, allocs string
		refused        bool
	}{
		"a folder in TMPDIR":        {data, "", false},
		"TMPDIR":                    {temp, "", true},
		"what holds it":             {base, "", true},
		"everything":                {"/", "", true},
		"a link to it":              {link, "", true},
		"the allocations' own":      {data, data, true},
		"one that is not there yet": {data, filepath.Join(link, "data", "a", "b"), true},
		"a name that begins so":     {data, data + "-2", false},
	} {
		r := &run{options: runOptions{allocRoot: c.allocs}, config: map[string]any{}}
		group := jobfile.Group{Volumes: map[string]jobfile.Volume{"none": {}, "v": {Source: "s", HostPath: c.volume}}}
		w, err := r.workspace(&placement{alloc: "alloc-id", group: group})
		if err == nil {
			err = os.Remove(w.temp)
			if c.refused || err != nil {
				t.Errorf("%s: taken, %v", name, err)
			}
			continue
		}
		if !c.refused || !strings.Contains(err.Error(), "-host-volume s="+c.volume+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
