package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Where a sandbox finds what its init is to run before the command. Files, for
// no program can be given a variable of more than 128 KiB.
const (
	stagesTarget = ownTarget + "/" + stagesFolder
	stagesList   = "stages.json"
	stagesFolder = "stages"
)

// stageEntry is one stage as wardyn-rec reads it.
type stageEntry struct {
	Name          string        `json:"name"`
	File          string        `json:"file,omitempty"`
	Repos         []runner.Repo `json:"repos,omitempty"`
	TimeoutMillis int64         `json:"timeout_ms,omitempty"`
	Code          int           `json:"code"`
}

// writeStages lays stages out below own, for the task's user to read, whoever
// that is: the folder above is closed.
func writeStages(own string, stages []runner.Stage) error {
	if len(stages) == 0 {
		return nil
	}
	dir := filepath.Join(own, stagesFolder)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	list := make([]stageEntry, len(stages))
	for i, s := range stages {
		list[i] = stageEntry{
			Name: s.Name, Repos: s.Repos, TimeoutMillis: max(s.Timeout.Milliseconds(), 0), Code: s.Code,
		}
		if s.Script == nil {
			continue
		}
		list[i].File = s.Name
		if err := writeOpen(filepath.Join(dir, s.Name), s.Script, 0o755); err != nil {
			return err
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return writeOpen(filepath.Join(dir, stagesList), b, 0o644)
}

// writeOpen writes a file with exactly this mode, whatever the umask.
func writeOpen(path string, b []byte, mode os.FileMode) error {
	if err := os.WriteFile(path, b, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

var stageName = regexp.MustCompile(`^[a-z]{1,16}$`)

func checkStages(t runner.TaskProcess) (errs []error) {
	seen := map[string]bool{}
	for _, s := range t.Stages {
		switch {
		case !stageName.MatchString(s.Name) || seen[s.Name]:
			errs = append(errs, fmt.Errorf("stage %q: want a name of its own, of lower-case letters", s.Name))
		case (s.Script == nil) == (len(s.Repos) == 0):
			errs = append(errs, fmt.Errorf("stage %s: want either a script or repositories", s.Name))
		case s.Code < 1 || s.Code > 255:
			errs = append(errs, fmt.Errorf("stage %s: %d is no exit code of a failure", s.Name, s.Code))
		}
		seen[s.Name] = true
		for _, r := range s.Repos {
			if r.URL == "" || !path.IsAbs(r.Dir) || path.Clean(r.Dir) != r.Dir || r.Dir == "/" {
				errs = append(errs, fmt.Errorf("stage %s: repository %q into %q: want a URL and an absolute, clean path", s.Name, r.URL, r.Dir))
			}
		}
	}
	if t.OnlyStages && (len(t.Stages) == 0 || t.Idle || len(t.Argv) > 0) {
		errs = append(errs, fmt.Errorf("a sandbox of stages only has stages and no command"))
	}
	return errs
}
