package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// What holds for a task lies in its run's folder from its start on: a client does
// not keep a task's config over a restart of its agent, and of the config alone it
// could be told again.

// settingsPath is where the settings of a run lie.
func (b *Backend) settingsPath(run uuid.UUID) string {
	return filepath.Join(b.RunDir(run), "settings.json")
}

func (b *Backend) saveSettings(run uuid.UUID, list []Setting) error {
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(b.settingsPath(run), data, 0o600)
}

// loadSettings are a run's settings as they were when it started.
func (b *Backend) loadSettings(run uuid.UUID) (list []Setting, err error) {
	data, err := os.ReadFile(b.settingsPath(run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the agent was restarted since the task was started, and keeps no config of tasks; nomad-driver-wardyn explain JOB tells of the job file")
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("what held when the task was started: %w", err)
	}
	return list, nil
}
