package plugin

import (
	"path"
	"path/filepath"
	"strconv"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// mountsOf lays out what the sandbox sees of the host: Nomad's folders at their
// usual places, sockets in them covered, then the author's folders by way of
// their staged places, then volumes.
func mountsOf(t *driverpb.TaskConfig, a ask, g given, class types.ConfinementClass, fx facts) ([]runner.TaskMount, []bind) {
	d := taskDirs(t)
	mounts := []runner.TaskMount{
		{Source: d.Shared(), Target: "/alloc"},
		{Source: d.Local(), Target: "/local"},
	}
	if a.Secrets {
		mounts = append(mounts, runner.TaskMount{Source: d.Secrets(), Target: "/secrets", ReadOnly: true})
	}
	mounts = append(mounts, covers(a, class, fx)...)
	for i, b := range a.Binds {
		mounts = append(mounts, runner.TaskMount{
			Source: stagePath(fx.StageDir, i), Target: b.Target, ReadOnly: b.ReadOnly, Yields: b.Yields,
		})
	}
	mounts = append(mounts, keptMounts(t, a)...)
	return append(mounts, g.Mounts...), a.Binds
}

// covers hides sockets of Nomad's, through which a process on the host's own
// kernel reaches whoever listens, without any network. A sandbox with a kernel
// of its own cannot connect to them, and gVisor does not start with a mount
// over one.
func covers(a ask, class types.ConfinementClass, fx facts) []runner.TaskMount {
	if class != types.CC1 {
		return nil
	}
	var out []runner.TaskMount
	for _, s := range fx.Sockets {
		if path.Dir(s) == "/secrets" && !a.Secrets {
			continue
		}
		out = append(out, runner.TaskMount{Source: "/dev/null", Target: s, ReadOnly: true})
	}
	return out
}

func stagePath(dir string, i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
