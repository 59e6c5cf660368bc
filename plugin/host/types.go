package host

import "time"

// TaskConfig is what a client tells a plugin about one run of a task.
type TaskConfig struct {
	ID        string // <alloc id>/<task name>/<8 hex digits>, new for every run
	Name      string
	GroupName string
	JobName   string
	JobID     string
	Namespace string
	AllocID   string
	NodeName  string
	NodeID    string

	// DriverConfig is the encoded config block. A client does not store it: a handle read
	// back after an agent restart comes without.
	DriverConfig []byte `json:"-"`

	Env        map[string]string
	DeviceEnv  map[string]string
	Resources  Resources
	Mounts     []Mount
	Devices    []Device
	User       string
	AllocDir   string // host path of the allocation's directory
	StdoutPath string
	StderrPath string
	Network    *NetworkIsolation // nil: the host's network
	DNS        *DNS
}

// Resources is a task's share of the node.
type Resources struct {
	CPU          int64   // MHz
	MemoryMB     int64   // MiB
	MemoryMaxMB  int64   // MiB; 0 is not set, -1 is no upper limit
	Cores        string  // reserved cores, "0,3"; empty without
	CPUFraction  float64 // CPU as a fraction of the node's usable compute
	CPUSetCgroup string
	Ports        []Port
}

// Port is one port of the group's network.
type Port struct {
	Label  string
	Value  int32 // on the host
	To     int32 // inside the task; 0 is the same
	HostIP string
}

// Mount is a volume of the job, or a mount a device asks for.
type Mount struct {
	TaskPath        string
	HostPath        string
	ReadOnly        bool
	PropagationMode string // private, host-to-task, bidirectional; empty is private
	SELinuxLabel    string
	RequestName     string
}

// Device is a device node to create in the task.
type Device struct {
	TaskPath    string
	HostPath    string
	Permissions string // a subset of "rwm"
}

// NetworkMode is how a task's network is isolated.
type NetworkMode int

// The isolation modes of the protocol.
const (
	NetworkHost NetworkMode = iota
	NetworkGroup
	NetworkTask
	NetworkNone
)

// NetworkIsolation is the network namespace of a task group.
type NetworkIsolation struct {
	Mode          NetworkMode
	Path          string // of the network namespace
	Labels        map[string]string
	HostsHostname string // with HostsAddress: the entry for /etc/hosts
	HostsAddress  string
}

// DNS is the name resolution a job asks for.
type DNS struct {
	Servers  []string
	Searches []string
	Options  []string
}

// TaskState is a plugin's word on a task.
type TaskState int

// The task states of the protocol.
const (
	TaskUnknown TaskState = iota
	TaskRunning
	TaskExited
)

// TaskHandle is what a client stores so that a task can be recovered.
type TaskHandle struct {
	Version     int
	Config      TaskConfig
	State       TaskState
	DriverState []byte
}

// Persisted is the handle as it comes back after an agent restart: without the encoded driver
// configuration.
func (h TaskHandle) Persisted() TaskHandle {
	h.Config.DriverConfig = nil
	return h
}

// NetworkOverride is the address a driver gives its task.
type NetworkOverride struct {
	PortMap       map[string]int32
	Addr          string
	AutoAdvertise bool
}

// ExitResult says how a task, or a command in it, ended.
type ExitResult struct {
	ExitCode  int
	Signal    int
	OOMKilled bool
	Err       string // what the driver has to say about it; empty mostly
}

// Successful is Nomad's idea of success.
func (r ExitResult) Successful() bool { return r.ExitCode == 0 && r.Signal == 0 && r.Err == "" }

// TaskStatus is the answer to InspectTask. Times that have not come are zero.
type TaskStatus struct {
	ID          string
	Name        string
	State       TaskState
	StartedAt   time.Time
	CompletedAt time.Time
	Exit        ExitResult
	Attributes  map[string]string
	Network     *NetworkOverride
}

// TaskUsage is one sample of a task's use of the node. Fields that were not measured are
// absent from the Measured lists.
type TaskUsage struct {
	Time   time.Time
	CPU    CPUUsage
	Memory MemoryUsage
	Pids   map[string]PidUsage
}

// PidUsage is the use of one process.
type PidUsage struct {
	CPU    CPUUsage
	Memory MemoryUsage
}

// CPUUsage is in per cent of one core, but for TotalTicks (MHz) and the throttling counters.
type CPUUsage struct {
	System           float64
	User             float64
	Percent          float64
	TotalTicks       float64
	ThrottledPeriods uint64
	ThrottledTime    time.Duration
	Measured         []string
}

// MemoryUsage is in bytes.
type MemoryUsage struct {
	RSS            uint64
	Cache          uint64
	Usage          uint64
	MaxUsage       uint64
	Swap           uint64
	KernelUsage    uint64
	KernelMaxUsage uint64
	Measured       []string
}

// Event is a task event of a driver.
type Event struct {
	TaskID      string
	AllocID     string
	TaskName    string
	Time        time.Time
	Message     string
	Annotations map[string]string
}

// Info is who a plugin says it is.
type Info struct {
	Name        string // the driver name of jobs
	Version     string
	APIVersions []string
}

// FSIsolation is how a driver isolates file systems.
type FSIsolation int

// The isolation kinds of the protocol.
const (
	IsolationNone FSIsolation = iota
	IsolationChroot
	IsolationImage
	IsolationUnveil
)

// Capabilities is what a driver says it can do.
type Capabilities struct {
	SendSignals          bool
	Exec                 bool
	FSIsolation          FSIsolation
	NetworkModes         []NetworkMode
	MustCreateNetwork    bool
	NoMounts             bool
	DisableLogCollection bool
	DynamicWorkloadUsers bool
}
