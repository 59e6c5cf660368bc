package docker

import (
	"errors"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// recorderTarget is where every sandbox finds wardyn-rec.
const recorderTarget = ownTarget + "/" + recorderFile

const (
	// mainCastDir is where a main process's recording lies in the sandbox.
	mainCastDir = "/tmp/wardyn-rec"
	// recordingRoute is the sidecar's route that recordings go out by.
	recordingRoute = "/wardyn/v1/recordings/"
)

// errNoCommand is refused with the hint that helps an author.
var errNoCommand = errors.New("command: neither the task nor the image names one; set command, or idle = true to keep the sandbox up without one")

// taskArgv is what runs under init: the task's words where it has some, the
// image's own otherwise. A task's entrypoint drops the image's command, as in
// every other container tool.
func taskArgv(t runner.TaskProcess, img imageFacts) ([]string, error) {
	entrypoint, args := img.Entrypoint, t.Argv
	if t.Entrypoint != nil {
		entrypoint = t.Entrypoint
	}
	if len(args) == 0 && t.Entrypoint == nil {
		args = img.Cmd
	}
	argv := append(append([]string(nil), entrypoint...), args...)
	if len(argv) == 0 || argv[0] == "" {
		return nil, errNoCommand
	}
	return argv, nil
}

// mainArgv is a sandbox's pid 1. Task nil is the contract's idle sandbox.
func mainArgv(run uuid.UUID, t *runner.TaskProcess, img imageFacts) ([]string, error) {
	if t == nil {
		return []string{recorderTarget, "init", "--", "sh", "-c", runner.AgentIdleScript}, nil
	}
	argv := []string{recorderTarget, "init"}
	if t.TTY {
		argv = append(argv, "-tty")
	}
	if len(t.Stages) > 0 {
		argv = append(argv, "-stages", stagesTarget+"/"+stagesList)
	}
	if t.OnlyStages {
		return argv, nil
	}
	if t.Idle {
		if len(t.Argv) > 0 {
			return nil, errors.New("idle: an idle task has no command of its own; drop command and args, or idle = true")
		}
		return append(argv, "-idle"), nil
	}
	words, err := taskArgv(*t, img)
	if err != nil {
		return nil, err
	}
	if t.Recorded {
		words = recordedArgv(run, words)
	}
	return append(append(argv, "--"), words...), nil
}

// recordedArgv is a command under the sandbox's own recorder (R40). The folder is
// one that every image has and every user can write in (R4).
func recordedArgv(run uuid.UUID, words []string) []string {
	argv := runner.RecorderArgv(mainCastDir, "", proxyURL+recordingRoute+run.String(), run, words)
	argv[0] = recorderTarget // no image has it on its PATH
	return argv
}
