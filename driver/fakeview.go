package driver

import (
	"maps"
	"slices"
)

// What a test looks at of a Fake.

// LastSpec is a copy of the Spec of the latest Create that succeeded.
func (f *Fake) LastSpec() Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cloneSpec(f.last)
}

// Volumes names the volumes that exist, sorted.
func (f *Fake) Volumes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.volumes))
}

// Pulls lists the images asked for by Prepull.
func (f *Fake) Pulls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pulls)
}

// Strips lists what each Snapshot was told to strip.
func (f *Fake) Strips() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([][]string, len(f.strips))
	for i, s := range f.strips {
		out[i] = slices.Clone(s)
	}
	return out
}

func cloneSpec(s Spec) Spec {
	s.Cmd = slices.Clone(s.Cmd)
	s.EgressAllow = slices.Clone(s.EgressAllow)
	s.Env = maps.Clone(s.Env)
	s.Repos = slices.Clone(s.Repos)
	if s.Home != nil {
		home := *s.Home
		s.Home = &home
	}
	s.Sandbox.Env = maps.Clone(s.Sandbox.Env)
	s.Sandbox.Labels = maps.Clone(s.Sandbox.Labels)
	s.Sandbox.Mounts = slices.Clone(s.Sandbox.Mounts)
	s.Sandbox.ProxyConfig.Policy = s.Sandbox.ProxyConfig.Policy.Clone()
	return s
}
