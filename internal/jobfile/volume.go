package jobfile

import (
	"fmt"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Volume is a volume block of a group, by whose name tasks mount it.
type Volume struct {
	Name     string
	Type     string // host or csi
	Source   string // what the client or the cluster calls it
	ReadOnly bool
	// HostPath is the folder of this machine that takes its place; "" is none.
	// See Options.HostVolumes.
	HostPath string `json:",omitempty"`
}

// VolumeMount mounts a volume of the client's into a task.
type VolumeMount struct {
	Volume      string // its name in the group
	HostPath    string `json:",omitempty"` // the volume's; see there
	Destination string // may hold references
	ReadOnly    bool   // by the mount or by its volume
	Propagation string // "" is private
}

// firstAllocation ends the source of a volume with per_alloc.
const firstAllocation = "[0]"

// volumes reads a group's volumes.
func (p *parser) volumes(s section) map[string]Volume {
	out := map[string]Volume{}
	seen := map[string]*hclsyntax.Block{}
	for _, b := range s.blocks["volume"] {
		if name, ok := p.label(b); ok && p.unique(b, seen) {
			out[name] = p.volume(fmt.Sprintf("%s: volume %q", s.where, name), name, b)
		}
	}
	return out
}

func (p *parser) volume(where, name string, b *hclsyntax.Block) Volume {
	s := p.open(where, b.Body, volumeRules)
	v, perAlloc := Volume{Name: name}, false
	if s.required(b, "type") {
		s.oneOf("type", &v.Type, "host", "csi")
	}
	if v.Type == "host" && s.single("mount_options") != nil {
		p.fault(s.single("mount_options").DefRange(), "%s: mount_options are for volumes of type csi", s.where)
	}
	s.read("read_only", &v.ReadOnly)
	s.read("per_alloc", &perAlloc)
	if !s.required(b, "source") || !s.read("source", &v.Source) {
		return v
	}
	if perAlloc {
		v.Source += firstAllocation
	}
	switch v.Type {
	case "csi":
		p.refuse(b.DefRange(), `%s: type = %q is not supported by run: no CSI plugin is run; for a folder of this machine write type = "host"`, s.where, v.Type)
	case "host":
		if v.HostPath = p.options.HostVolumes[v.Source]; v.HostPath != "" {
			return v
		}
		p.refuse(b.DefRange(), "%s: this machine has no host volume %q: say which folder it is with run -host-volume %s=DIR", s.where, v.Source, v.Source)
	}
	return v
}

// volumeMounts reads what a task mounts of its group's volumes.
func (p *parser) volumeMounts(s section, g Group) []VolumeMount {
	var out []VolumeMount
	for _, b := range s.blocks["volume_mount"] {
		ms := p.open(s.where+": volume_mount", b.Body, volumeMountRules)
		m := VolumeMount{}
		ms.read("destination", &m.Destination)
		ms.read("read_only", &m.ReadOnly)
		ms.oneOf("propagation_mode", &m.Propagation, "", "private", "host-to-task", "bidirectional")
		if ms.required(b, "volume") && ms.read("volume", &m.Volume) {
			v, ok := g.Volumes[m.Volume]
			if !ok && !g.OpenVolumes {
				p.fault(ms.attrs["volume"].Range(), "%s: the group has no volume %q%s", ms.where, m.Volume, suggest(m.Volume, sortedKeys(g.Volumes)))
			}
			m.HostPath, m.ReadOnly = v.HostPath, m.ReadOnly || v.ReadOnly
		}
		out = append(out, m)
	}
	return out
}
