package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/clean"
	"github.com/wardyn/nomad-driver-wardyn/internal/taskpath"
)

// Audit keeps a copy of every record of every run of the node, in one file a
// day (UTC), for longer than allocations are kept:
//
//	2026-01-02.jsonl   one line a record: whose it is, then a Record's fields
type Audit struct {
	dir  *os.Root
	keep time.Duration
	now  func() time.Time

	mu  sync.Mutex
	day string
	f   *os.File
}

// OpenAudit opens the folder, making it when it is missing; it must be ours and
// closed to everyone else. Files older than keep are removed, day by day.
func OpenAudit(dir string, keep time.Duration) (*Audit, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("audit_dir: %w", err)
	}
	root, err := taskpath.OpenRecords(dir, true)
	if err != nil {
		return nil, fmt.Errorf("audit_dir: %w", err)
	}
	return &Audit{dir: root, keep: keep, now: time.Now}, nil
}

// OwnedRecord is a record and whose run it is of, as copies are kept.
type OwnedRecord struct {
	Owner
	Record
}

// Take adds a record.
func (a *Audit) Take(r OwnedRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.turn(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	_, err = a.f.Write(append(clean.Visible(b), '\n'))
	return err
}

const auditSuffix = ".jsonl"

// turn opens today's file, and sweeps when it is a new day's.
func (a *Audit) turn() error {
	day := a.now().UTC().Format(time.DateOnly)
	if a.f != nil && day == a.day {
		return nil
	}
	f, err := taskpath.OpenRecord(a.dir, day+auditSuffix, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	if a.f != nil {
		a.f.Close()
	}
	a.f, a.day = f, day
	return a.sweep()
}

// sweep removes the files of days that are over for longer than they are kept.
func (a *Audit) sweep() error {
	entries, err := os.ReadDir(a.dir.Name())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), auditSuffix)
		day, err := time.Parse(time.DateOnly, name)
		if ok && err == nil && a.now().Sub(day.AddDate(0, 0, 1)) > a.keep {
			errs = append(errs, ignoreMissing(a.dir.Remove(e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Close lets go of the folder.
func (a *Audit) Close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.f != nil {
		a.f.Close()
	}
	return a.dir.Close()
}
