package cli

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
)

// apart makes sure that no host volume of the group holds a folder of the run's
// own, as the temporary folder of all programs does: a sandbox would have the
// plugin's data dir and the secrets of other tasks.
func apart(g jobfile.Group, own ...string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[name]
		if v.HostPath == "" {
			continue
		}
		volume := strings.TrimSuffix(realPath(v.HostPath), "/") + "/"
		for _, dir := range own {
			if strings.HasPrefix(realPath(dir)+"/", volume) {
				errs = append(errs, fmt.Errorf("-host-volume %s=%s: the run's own folder %s would be in it; give a folder beside it, or set TMPDIR or -alloc-dir to one outside", v.Source, v.HostPath, dir))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// realPath is a path without links, as far as it exists.
func realPath(path string) string {
	for rest := ""; ; path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest) {
		real, err := filepath.EvalSymlinks(path)
		if err == nil || path == filepath.Dir(path) {
			return filepath.Join(real, rest)
		}
	}
}
