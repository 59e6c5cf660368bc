package docker

import (
	"os"
	"path/filepath"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// What the driver brings into a sandbox lies in one folder, which is mounted as
// a whole. A file mounted alone would come to lie wherever a link of the
// image's leads, in a folder that root in the sandbox can move away with it and
// put a program of its own in the place of; a mount point cannot be moved.
const (
	ownTarget    = "/.wardyn"
	ownFolder    = "own" // in a run's files
	recorderFile = "wardyn-rec"
)

// makeOwn lays the folder out: an empty file that wardyn-rec is mounted over,
// the gate, and the stages.
func makeOwn(dir string, stages []runner.Stage) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		return err
	}
	for _, name := range []string{recorderFile, gateFile} {
		if err := writeOpen(filepath.Join(dir, name), nil, 0o644); err != nil {
			return err
		}
	}
	return writeStages(dir, stages)
}
