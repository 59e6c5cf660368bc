package plugin

import (
	"fmt"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/hclspec"
)

// DiskHostConfig is the part of the plugin's config that is about disk use.
type DiskHostConfig struct {
	MaxDisk     int64  `codec:"max_disk"`
	DiskEnforce string `codec:"disk_enforce"`
}

// addDiskHost adds the schema of DiskHostConfig.
func addDiskHost(s map[string]*hclspec.Spec) {
	s["max_disk"] = hclspec.Attr("max_disk", hclspec.Number)
	s["disk_enforce"] = hclspec.Attr("disk_enforce", hclspec.String)
}

// DiskRules are the operator's decisions about disk use.
type DiskRules struct {
	MaxMiB int64 // of every task; 0 does not cap
	// WarnOnly tells of a task that is over its limit and does not end it.
	WarnOnly bool
}

func diskRules(f *faults, c DiskHostConfig) DiskRules {
	if c.MaxDisk < 0 {
		f.add("max_disk", c.MaxDisk, "want a number of MiB", "remove the line for no limit")
	}
	if !slices.Contains([]string{"", "kill", "warn"}, c.DiskEnforce) {
		f.add("disk_enforce", c.DiskEnforce, `want "kill" or "warn"`, "")
	}
	return DiskRules{MaxMiB: c.MaxDisk, WarnOnly: c.DiskEnforce == "warn"}
}

// readDisk reads storage_opt, whose only option is a size.
func (a *ask) readDisk(v any, r DiskRules, f *faults) {
	a.DiskMiB = r.MaxMiB
	m, err := stringMap(v)
	if err != nil {
		f.add("storage_opt", nil, err.Error(), `write storage_opt { size = "10g" }`)
		return
	}
	for k, text := range m {
		if k != "size" {
			f.add("storage_opt."+k, nil, "options of the engine's storage are the operator's", "only size can be set")
			continue
		}
		n, err := sizeMiB(text)
		switch {
		case err != nil:
			f.add("storage_opt.size", text, err.Error(), `for instance "10g"`)
		case r.MaxMiB > 0 && n > r.MaxMiB:
			f.add("storage_opt.size", text, fmt.Sprintf("the operator's maximum is %d MiB (plugin option max_disk)", r.MaxMiB), "ask for less")
		default:
			a.DiskMiB = n
		}
	}
}
