package docker

import (
	"os"
	"path/filepath"
)

const (
	// gateFile is empty until a sandbox's sidecar is ready. Pid 1 of the agent
	// waits for that, so that the two containers can be started side by side.
	gateFile = "gate"
	// gateTarget is where a sandbox finds it.
	gateTarget = ownTarget + "/gate"
)

// gated is the command line of pid 1 with the gate to wait at.
func gated(argv []string) []string {
	return append([]string{argv[0], argv[1], "-gate", gateTarget}, argv[2:]...)
}

// openGate lets the agent's main process begin. The file is written in place,
// and stays open for a sandbox that is parked and started again.
func (b *build) openGate() error {
	return os.WriteFile(filepath.Join(b.files, ownFolder, gateFile), []byte("open\n"), 0o644)
}
