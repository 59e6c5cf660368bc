package jobfile

import "time"

// Job is a job file after evaluation.
type Job struct {
	ID        string
	Name      string
	Namespace string
	Region    string `json:",omitempty"` // "" is the node's
	Type      string // service, batch, system or sysbatch
	Meta      map[string]string
	Groups    []Group
	// Dispatched: each run is given a payload and more meta, which are in here
	// when the file was read with them.
	Dispatched bool   `json:",omitempty"`
	Payload    []byte `json:",omitempty"` // see Options.Dispatch
	// Unread lists dynamic blocks, which are not expanded: what they make is not in
	// here. See Options.Cluster.
	Unread []Note `json:"-"`
	// Ignored lists what the file asks for and one node without a cluster does
	// not do, in file order.
	Ignored []Note `json:",omitempty"`
}

// Batch tells whether a task that ends with exit code 0 is done. Tasks of other
// types are restarted.
func (j *Job) Batch() bool { return j.Type == "batch" || j.Type == "sysbatch" }

// Group is a task group: tasks that share an allocation.
type Group struct {
	Name    string
	Meta    map[string]string // the job's below the group's own
	Network *Network          `json:",omitempty"`
	Volumes map[string]Volume `json:",omitempty"` // by name
	Tasks   []Task
	Checks  []Check `json:",omitempty"` // of its own services
	Pos     Pos     `json:"-"`
	// Services are the group's own; see Options.Cluster.
	Services []Service `json:"-"`
	// OpenPorts: there are more ports than its network shows, by dynamic blocks.
	OpenPorts bool `json:"-"`
	// OpenVolumes: there are more volumes, by dynamic blocks.
	OpenVolumes bool `json:"-"`
}

// Network is a group's network block.
type Network struct {
	Mode     string // as written; "" is host
	Hostname string `json:",omitempty"`
	Ports    []Port `json:",omitempty"`
	DNS      *DNS   `json:",omitempty"`
}

// Port is one labelled port of a group.
type Port struct {
	Label  string
	Static int // the host port; 0 asks for a free one
	To     int // the port inside the task; 0 is the host port, -1 too
}

// DNS is a network block's dns block.
type DNS struct {
	Servers, Searches, Options []string
}

// Task is one task of a group.
type Task struct {
	Name   string
	Driver string
	User   string `json:",omitempty"`
	// OpenEnv: dynamic blocks of the task may add to its environment.
	OpenEnv bool `json:"-"`
	// Config is the driver's config block as Nomad's parser hands it on.
	Config map[string]any
	// Env holds values that may still contain runtime references.
	Env         map[string]string
	Meta        map[string]string // the group's below the task's own
	Templates   []Template        `json:",omitempty"`
	Identities  []Identity        `json:",omitempty"` // one a block
	Resources   Resources
	Logs        Logs
	KillTimeout time.Duration
	KillSignal  string `json:",omitempty"` // "" is the driver's default
	Restart     Restart
	Lifecycle   *Lifecycle    `json:",omitempty"` // nil for a main task
	Leader      bool          `json:",omitempty"`
	Checks      []Check       `json:",omitempty"` // of its services
	Pos         Pos           `json:"-"`
	Places      Places        `json:"-"`
	Mounts      []VolumeMount `json:",omitempty"`
	// PayloadFile is where the job's payload is written to when there is one,
	// below the task's local directory; "" is nowhere.
	PayloadFile string `json:",omitempty"`
	// Unread are options of config whose value could not be worked out here.
	Unread []string `json:"-"`
}

// Template is a file rendered into the task's directory.
type Template struct {
	Data        string
	Destination string // relative to the task's directory; may hold references
	Perms       uint32
	Env         bool // the result is KEY=value lines for the task's environment
	Left, Right string
	// ErrorOnMissingKey makes a reference to an absent map key an error.
	ErrorOnMissingKey bool   `json:",omitempty"`
	UID, GID          *int   `json:",omitempty"`
	ChangeMode        string // kept for its validity alone: nothing re-renders here
	Pos               Pos    `json:"-"`
}

// Resources is what a task may use.
type Resources struct {
	CPU         int // MHz
	Cores       int // whole cores; 0 is none reserved
	MemoryMB    int
	MemoryMaxMB int // 0 is unset, -1 no upper limit
}

// Logs says how Nomad keeps a task's output.
type Logs struct {
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool
}

// Restart is a restart policy: Attempts within Interval, Delay before each.
type Restart struct {
	Attempts int
	Interval time.Duration
	Delay    time.Duration
	// Mode says what happens when the attempts are used up: "fail" ends the
	// task, "delay" waits for the next interval.
	Mode string
}

// Lifecycle places a task before, beside or after the main tasks.
type Lifecycle struct {
	Hook    string // prestart, poststart or poststop
	Sidecar bool
}
