package driver

import (
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// sandboxSpec is the sandbox a checked Spec asks for. Nothing of it is shared
// with the Spec but what only the caller can have made: the process's output
// sink.
//
// Without a Sandbox.Task the session is whole by itself: Cmd is its process
// and a session with an id has its workspace volume at WorkspacePath. With
// one, process and mounts are the caller's, and no volume is mounted that it
// does not name.
func sandboxSpec(s Spec, o DockerOpts) runner.SandboxSpec {
	b := s.Sandbox
	if b.RunID == uuid.Nil {
		b.RunID = uuid.New()
	}
	b.Image = imageOf(s, o.Image)
	b.Env = environment(s)
	b.Mounts = slices.Clone(b.Mounts)
	b.Labels = maps.Clone(b.Labels)
	if b.Labels == nil {
		b.Labels = map[string]string{}
	}
	b.Labels[o.Label] = s.SessionID
	b.ProxyConfig = proxyConfig(s)
	b.Task = taskProcess(s)
	if v := exclusive(b.Task); v != "" {
		b.Labels[WorkspaceLabel] = v
	}
	return b
}

// proxyConfig is the sidecar's half with the session's own hosts allowed as
// well. The policy is a copy: one run's list must never grow another's.
func proxyConfig(s Spec) runner.ProxyConfig {
	p := s.Sandbox.ProxyConfig
	p.Policy = p.Policy.Clone()
	for _, host := range s.EgressAllow {
		if !slices.Contains(p.Policy.AllowedDomains, host) {
			p.Policy.AllowedDomains = append(p.Policy.AllowedDomains, host)
		}
	}
	p.Injection = slices.Clone(p.Injection)
	p.MITMHosts = slices.Clone(p.MITMHosts)
	p.GitGrants = maps.Clone(p.GitGrants)
	return p
}

func taskProcess(s Spec) *runner.TaskProcess {
	t := ownProcess(s)
	t.Stages = slices.Concat(t.Stages, stages(s))
	if s.Home != nil {
		t.Mounts = append(slices.Clip(t.Mounts), runner.TaskMount{Volume: s.Home.Volume, Target: s.Home.Path})
	}
	return t
}

// ownProcess is the process without what the session adds to it.
func ownProcess(s Spec) *runner.TaskProcess {
	if s.Sandbox.Task != nil {
		t := *s.Sandbox.Task
		if len(s.Cmd) > 0 {
			t.Argv = slices.Clone(s.Cmd)
		}
		return &t
	}
	t := &runner.TaskProcess{Argv: slices.Clone(s.Cmd)}
	if volume := WorkspaceVolume(s.SessionID); volume != "" {
		t.WorkDir = WorkspacePath
		t.Mounts = []runner.TaskMount{{Volume: volume, Target: WorkspacePath}}
	}
	return t
}

// volumesOf are the volumes that must exist before the sandbox does.
func volumesOf(t *runner.TaskProcess) []string {
	var out []string
	for _, m := range t.Mounts {
		if m.Volume != "" {
			out = append(out, m.Volume)
		}
	}
	return out
}
