package plugin

import (
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// stageWords say what a stage does, by the exit code of its failure.
var stageWords = map[int]struct{ name, what string }{
	runner.SetupFailed: {"setup", "The setup script failed"},
	runner.CloneFailed: {"clone", "A repository could not be cloned"},
	runner.InitFailed:  {"init", "The init script failed"},
}

// tellStage tells of a start that failed in one of the task's stages. The
// command could exit with the same code, so the log has the last word.
func (p *Plugin) tellStage(t *task, code int) {
	w, known := stageWords[code]
	if !known || !t.state.hasStage(w.name) {
		return
	}
	p.events.emit(t.config, fmt.Sprintf("%s (exit code %d); the lines of the task's log that start with [%s] say why", w.what, code, w.name),
		"stage", w.name)
}
