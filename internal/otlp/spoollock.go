package otlp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockName = "lock"
	// takenPause is how often a spool that another process has is asked for.
	takenPause = 250 * time.Millisecond
)

// errTaken: another process has the spool. A driver whose agent died goes on for
// a moment beside the next one, and two that turn the same files would lose and
// mistake each other's records.
var errTaken = errors.New("another process of the driver has the spool")

// openSpool takes a spool for this process and opens it.
func openSpool(dir string, limit int64) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errTaken
		}
		return nil, fmt.Errorf("%s: %w", lockName, err)
	}
	s, err := readSpool(dir, limit)
	if err != nil {
		lock.Close()
		return nil, err
	}
	s.lock = lock
	return s, nil
}

// await opens the spool when the process that has it has ended; nil when ctx
// ends before. Sidecars keep their records meanwhile.
func (e *Exporter) await(ctx context.Context) *spool {
	for told := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(takenPause):
		}
		s, err := openSpool(e.o.Dir, e.o.Limit)
		if err == nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.spool = s
			return s
		}
		if !told {
			told = true
			e.o.Log.Warn("decision records cannot be taken for the collector yet; trying on", "error", err)
		}
	}
}
