// Package doctor judges whether a node can run governed sandboxes, and says
// what to do where it cannot. It is one pure function from facts to findings:
// who gathers the facts asks the engine and the host, and nothing here does.
package doctor

import (
	"net/netip"
	"time"
)

// Facts are what was found out about a node.
type Facts struct {
	// Config are the faults of the plugin's options, each a sentence.
	Config []string
	// Files are what the options name on the node.
	Files []File
	// Endpoint is the engine's socket; EngineErr says why it could not be
	// asked, and then nothing is known of Engine.
	Endpoint  string
	EngineErr string
	Engine    Engine
	Host      Host
	Classes   []Class
	// ProbesLeft says what of this examination's own probes could not be
	// removed, and why; "" when nothing is left.
	ProbesLeft string
	Pools      []Pool
	Disks      []Disk
	Data       DataDir
}

// File is a file or folder that an option names.
type File struct {
	Option, Path string
	Fault        string // why it cannot serve; "" where it can
	Needed       bool   // the driver itself cannot work without it, not a single task
}

// Engine is what a Docker engine says of itself.
type Engine struct {
	Version, Containerd, Runc   string
	Kernel                      string
	StorageDriver, Root         string
	CgroupDriver, CgroupVersion string
	DefaultRuntime              string
	Runtimes                    []Runtime
	AppArmor, SELinux, Seccomp  bool
	// UserNamespaces: users are mapped to others (userns-remap, rootless).
	UserNamespaces bool
	// DiskQuota: a sandbox's writable layer can be capped.
	DiskQuota bool
	// IsolatedGateway: bridges can be made without an address of the host's;
	// else that is done with an older option to the same effect.
	IsolatedGateway bool
}

// Runtime is one that is registered with the engine.
type Runtime struct {
	Name, Path string
	Args       []string
	// Missing: there is no program at Path. It is false where that cannot be
	// told.
	Missing bool
}

// Host is what the node says of itself.
type Host struct {
	Root         bool // the facts were gathered as root
	BridgeFilter bool // net.bridge.bridge-nf-call-iptables is 1
	Systemd      bool // it is what runs the services
	KVM          bool // there is a /dev/kvm
}

// Class is one confinement class on this node.
type Class struct {
	Name    string // CC1, CC2 or CC3
	Offered bool   // by the operator
	Pin     string // the runtime that the operator pinned it to; "" without
	Runtime string // that would give it; "" when none is registered
	Works   bool   // a probe ran under it and found no way out
	Reason  string // why it does not work
	// Probed is when that was found out; zero when it never was.
	Probed time.Time
}

// Pool is a range that networks are cut from.
type Pool struct {
	Option       string // of the plugin's config
	Range        netip.Prefix
	Used, Total  int
	Single       bool    // one network of it serves the whole installation
	Elsewhere    []Range // who else holds part of it
	UsedUnknown  bool    // the leases could not be read
	DefaultRange bool    // the operator named none
}

// Range is an address range and who holds it.
type Range struct {
	Prefix netip.Prefix
	Holder string // "a route of the host", "network NAME of the engine"
	// Alike: it is another installation of this driver, which passes over our
	// networks as we do over its.
	Alike bool
}

// Disk is the file system below a folder.
type Disk struct {
	Of                string // "data_dir", "the engine's root"
	Path              string
	FreeMiB, TotalMiB int64
	FreeInodes        uint64
	NoInodeCount      bool // the file system does not count them
	Err               string
}

// DataDir is the folder of an installation.
type DataDir struct {
	Path string
	// Missing: it will be made when the driver first starts.
	Missing bool
	Fault   string // what keeps the driver from using it
}
