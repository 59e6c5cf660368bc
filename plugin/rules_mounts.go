package plugin

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// MountHostConfig is the part of the plugin's config that is about mounts.
type MountHostConfig struct {
	Volumes *VolumesConfig `codec:"volumes"`
}

// VolumesConfig is the plugin's volumes block.
type VolumesConfig struct {
	Enabled bool     `codec:"enabled"`
	Paths   []string `codec:"paths"`
	Named   bool     `codec:"named"`
}

// addMountHost adds the schema of MountHostConfig.
func addMountHost(s map[string]*hclspec.Spec) {
	s["volumes"] = hclspec.Block("volumes", hclspec.Object(map[string]*hclspec.Spec{
		"enabled": hclspec.Attr("enabled", hclspec.Bool),
		"paths":   hclspec.Attr("paths", hclspec.StringList),
		"named":   hclspec.Attr("named", hclspec.Bool),
	}))
}

// VolumeRules are the operator's decisions about mounts.
type VolumeRules struct {
	// Paths are folders of the host that jobs may mount, with what is below.
	Paths []string
	// Named lets jobs keep volumes on the node.
	Named bool
}

// volumeRules reads the operator's volumes block. A path that is never mounted
// for a job is refused here, not first when a job names it.
func volumeRules(f *faults, c *VolumesConfig) VolumeRules {
	if c == nil {
		return VolumeRules{}
	}
	if c.Enabled {
		f.add("volumes.enabled", true, "the host is never opened as a whole", "list the folders that jobs may mount in volumes.paths")
	}
	for _, p := range c.Paths {
		if !path.IsAbs(p) || path.Clean(p) != p {
			f.add("volumes.paths", p, "want an absolute path without . and ..", `for instance "/srv/shared"`)
		} else if err := runner.ValidateMountName(p); err != nil {
			f.add("volumes.paths", p, err.Error(), "")
		}
	}
	return VolumeRules{Paths: c.Paths, Named: c.Named}
}

// nomadFolders are where the agent of a task keeps what no job may mount: the
// folders of all allocations and, beside them unless the operator has moved
// one, the state of its client and of a server.
func nomadFolders(allocDir string) []string {
	allocs := filepath.Dir(filepath.Clean(allocDir))
	data := filepath.Dir(allocs)
	return []string{allocs, filepath.Join(data, "client"), filepath.Join(data, "server")}
}

// allows reports whether a job may mount a path of the host.
func (r VolumeRules) allows(p string) bool {
	return slices.ContainsFunc(r.Paths, func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
}
