package plugin

import (
	"context"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// sidecarKey is where a client shows the sidecar's use: in the place of a
// process of the task's, and not among what the task itself uses.
const sidecarKey = "sidecar"

// sidecarSampler samples a task's sidecar beside the task.
type sidecarSampler struct {
	r      runner.Runner
	ref    string
	before runner.Usage
}

// sample is the sidecar's use; nil when it cannot be measured, as while one
// takes another's place.
func (s *sidecarSampler) sample(ctx context.Context, c compute) map[string]*driverpb.TaskResourceUsage {
	reader, ok := s.r.(runner.SidecarUsageReader)
	if !ok {
		return nil
	}
	u, err := usage(ctx, reader.SidecarUsage, s.ref)
	if err != nil {
		return nil
	}
	before := s.before
	s.before = u
	return map[string]*driverpb.TaskResourceUsage{sidecarKey: resourceUsage(before, u, c)}
}
