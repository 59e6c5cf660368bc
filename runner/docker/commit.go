package docker

import (
	"context"
	"fmt"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Commit would make an image of a sandbox's file system.
func (r *Runner) Commit(_ context.Context, ref, _ string, _ []string) (string, error) {
	return "", fmt.Errorf("snapshot of %s: snapshots are not part of this version: %w", ref, runner.ErrUnsupported)
}
