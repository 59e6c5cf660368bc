package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

// parkMark says that a task's main process was stopped to be started again. It
// lies on disk, so that it outlives the plugin and tells of a reboot, which
// takes what the sandbox needs to go on: its folder on tmpfs, its networks'
// namespaces and its control socket.
type parkMark struct {
	Boot    string    `json:"boot"`              // of the kernel it was parked under
	Since   time.Time `json:"since"`             // from before the process was stopped
	Stopped bool      `json:"stopped,omitempty"` // the process has been down
	// Started is when the process that was stopped had been started, by the
	// engine; zero when that could not be asked. Another time is another process,
	// whatever the node's clock has done in between.
	Started time.Time `json:"started,omitzero"`
}

// lost reports whether the node was booted anew since.
func (m parkMark) lost() bool { return m.Boot != bootID() }

// bootID is the kernel's name for its present life; "" where it has none.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// parkPath is where the mark of a run lies.
func (b *Backend) parkPath(run uuid.UUID) string { return markPath(b.ParkDir, run) }

func markPath(dir string, run uuid.UUID) string {
	return filepath.Join(dir, run.String()+".json")
}

// Parked reports whether a folder of marks, a Backend's ParkDir, has one of the
// run: for who lists an installation beside its plugin.
func Parked(dir string, run uuid.UUID) bool {
	_, err := os.Lstat(markPath(dir, run))
	return err == nil
}

// saveParkMark writes a mark.
func (b *Backend) saveParkMark(run uuid.UUID, m parkMark) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeDurably(b.parkPath(run), data)
}

// writeDurably writes a file in one step, on the disk for certain.
func writeDurably(path string, data []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, werr := f.Write(data)
	if err = errors.Join(werr, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp) // on a full disk nothing else would
	}
	return err
}

// loadParkMark is a run's mark, nil when it is not parked.
func (b *Backend) loadParkMark(run uuid.UUID) (*parkMark, error) {
	if b.ParkDir == "" {
		return nil, nil
	}
	data, err := os.ReadFile(b.parkPath(run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := &parkMark{}
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	if err != nil {
		return nil, fmt.Errorf("whether the task is parked: %w", err)
	}
	return m, nil
}

func (b *Backend) removeParkMark(run uuid.UUID) error {
	if b.ParkDir == "" {
		return nil
	}
	if err := os.Remove(b.parkPath(run)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
