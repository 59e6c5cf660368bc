package control

import (
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// tailBytes is how much of each file Decisions reads, from its end.
const tailBytes = 4 << 20

// Decisions reads the latest recorded verdicts of a run out of its files, at
// most most of them, oldest first. It needs no Server, and looks at the last
// 4 MiB of each file.
func Decisions(filesDir string, id uuid.UUID, most int) ([]Record, error) {
	root, err := taskpath.OpenRecords(filesDir, false)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer root.Close()
	var out []Record
	for _, name := range []string{olderName, journalName} {
		f, err := taskpath.OpenRecord(root, name, os.O_RDONLY)
		if err != nil {
			if err = ignoreMissing(err); err != nil {
				return nil, err
			}
			continue
		}
		err = scanTail(f, tailBytes, func(r Record) {
			if r.RunID == id && r.Kind == kindDecision {
				out = append(out, r)
			}
		})
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out[max(len(out)-most, 0):], nil
}
