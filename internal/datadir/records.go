package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Record is what the node remembers of a run, so that it can be taken down
// with nothing in memory. It holds no secret.
type Record struct {
	RunID     uuid.UUID `json:"run_id"`
	CreatedAt time.Time `json:"created_at"`
	Image     string    `json:"image"`
	Class     string    `json:"class"`
	Runtime   string    `json:"runtime,omitempty"`
	// NetworkID is the engine's id of the run's network; networks are removed by id.
	NetworkID string `json:"network_id,omitempty"`
	// Subnet is the leased prefix, in CIDR notation; "" without a network.
	Subnet string `json:"subnet,omitempty"`
	// Labels are the caller's (session, namespace, job ...).
	Labels map[string]string `json:"labels,omitempty"`
}

// SaveRecord writes a run's record.
func (d *Dir) SaveRecord(r Record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(d.recordPath(r.RunID), append(b, '\n'))
}

// LoadRecord reads a run's record; fs.ErrNotExist when there is none.
func (d *Dir) LoadRecord(run uuid.UUID) (Record, error) {
	var r Record
	b, err := os.ReadFile(d.recordPath(run))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", d.recordPath(run), err)
	}
	return r, nil
}

// RemoveRecord forgets a run; a missing record is nil.
func (d *Dir) RemoveRecord(run uuid.UUID) error {
	err := os.Remove(d.recordPath(run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Records lists every run the node remembers. Files that are not records are skipped.
func (d *Dir) Records() ([]Record, error) {
	entries, err := os.ReadDir(d.Path("runs"))
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, e := range entries {
		id, err := uuid.Parse(strings.TrimSuffix(e.Name(), ".json"))
		if err != nil {
			continue
		}
		r, err := d.LoadRecord(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (d *Dir) recordPath(run uuid.UUID) string { return d.Path("runs", run.String()+".json") }
