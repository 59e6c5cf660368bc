package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// findingsFile, in the data dir, holds what the last examination found, for
// people who ask while the driver runs in another process.
const findingsFile = "findings.json"

// findingsLife is how old the file may become while nothing changes.
const findingsLife = 5 * time.Minute

// KeptFindings are the findings of a driver and when they held.
type KeptFindings struct {
	At       time.Time       `json:"at"`
	Findings runner.Findings `json:"findings"`
}

// keepFindings writes them down when they changed or the file has aged. While a
// class is still being probed they are no findings yet.
func (r *Runner) keepFindings(f runner.Findings, now time.Time) {
	last, err := LastFindings(r.opts.Dir.Path())
	if f.Pending || err == nil && now.Sub(last.At) < findingsLife && reflect.DeepEqual(last.Findings, f) {
		return
	}
	b, err := json.Marshal(KeptFindings{At: now.UTC(), Findings: f})
	if err == nil {
		err = datadir.WriteFile(r.opts.Dir.Path(findingsFile), b)
	}
	if err != nil {
		r.opts.Log.Warn("findings are not written down", "error", err)
	}
}

// LastFindings is what the driver with that data dir found last; the zero value
// when it never examined its node.
func LastFindings(dataDir string) (KeptFindings, error) {
	var k KeptFindings
	b, err := os.ReadFile(filepath.Join(dataDir, findingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(b, &k); err != nil {
		return KeptFindings{}, fmt.Errorf("%s: %w", findingsFile, err)
	}
	return k, nil
}
