package plugin

import (
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// mountsAt reports whether the author has something mounted at a target.
func (a *ask) mountsAt(target string) bool {
	return slices.ContainsFunc(a.Binds, func(b bind) bool { return b.Target == target }) ||
		slices.ContainsFunc(a.Kept, func(v keptVolume) bool { return v.Target == target }) ||
		slices.ContainsFunc(a.Tmpfs, func(t runner.Tmpfs) bool { return t.Target == target })
}

// keeps reports whether the task's home or its kept workspace is at a target.
func (a *ask) keeps(target string) bool {
	return a.Home != nil && a.Home.Path == target || a.Workspace != "" && target == driver.WorkspacePath
}
