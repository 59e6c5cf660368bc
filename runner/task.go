package runner

import (
	"context"
	"net"
	"time"
)

// TaskProcess makes a command the sandbox's main process. It holds what a
// scheduler's task says about a process beyond the reference contract.
type TaskProcess struct {
	// Argv is command and arguments. Empty: the image's own command runs.
	Argv []string
	// Entrypoint replaces the image's entrypoint. nil keeps the image's, an
	// empty slice clears it.
	Entrypoint []string
	// Idle makes the main process idle; Argv must be empty.
	Idle bool

	// Recorded runs the command under the sandbox's own recorder, which delivers
	// what it records by way of the sidecar. It needs a network.
	Recorded bool

	// Stages run before the command. With OnlyStages there is no command, and
	// the sandbox ends with code 0 when they are through.
	Stages     []Stage
	OnlyStages bool

	User     string // user or user:group as known in the image; "" is the image's
	WorkDir  string // absolute; "" is the image's
	Hostname string // "" is "agent"
	TTY      bool   // a terminal for the main process: merges stderr into stdout
	Stdin    bool   // keep standard input open

	// StopSignal is the signal of a stop without one; "" is the image's, else SIGTERM.
	StopSignal string

	// Image says how the image gets onto the node.
	Image ImageSource

	// Output takes the main process's streams over before it starts; nil discards them.
	Output OutputSink

	// Mounts are prepared by the caller: the task's own folders, Nomad's
	// directories, client volumes. They do not pass ValidateMount.
	Mounts []TaskMount
	// Tmpfs are extra in-memory mounts.
	Tmpfs []Tmpfs
	// ReadonlyRootfs makes the image's file system read-only.
	ReadonlyRootfs bool
	// ShmMiB sizes /dev/shm; 0 is the substrate's default.
	ShmMiB int64

	// CapAdd names capabilities to keep beside the empty set. The caller has
	// checked them against the operator's list.
	CapAdd []string
	// Sysctls are set in the sandbox; checked by the caller against the safe list.
	Sysctls map[string]string
	// Ulimits beside the substrate's defaults.
	Ulimits []Ulimit

	// Devices of the host; checked by the caller against the operator's list.
	Devices []Device
	// GroupAdd are further groups of the process, by number.
	GroupAdd []string
	// AppArmor names a loaded profile in place of the substrate's, SeccompFile a
	// file of the host; both are the operator's.
	AppArmor, SeccompFile string
	// OOMScoreAdj is used where it is above AgentOOMScore.
	OOMScoreAdj int64
	// Log sizes the substrate's own log; zero fields are its defaults.
	Log LogRotation

	// CPUShares is the relative weight; 0 is the substrate's default.
	CPUShares int64
	// CpusetCpus pins to cores, as "0,3,5".
	CpusetCpus string
	// MemoryReservationMiB is the soft limit below Resources.MemoryMiB.
	MemoryReservationMiB int64

	// NoNetwork gives no network at all: no sidecar, hence no egress.
	NoNetwork bool
}

// TaskMount is a mount whose source the caller has vetted and, where a job
// named it, staged by descriptor.
type TaskMount struct {
	Source string
	// Volume names an engine's volume to mount instead of Source.
	Volume      string
	Target      string
	ReadOnly    bool
	NoCopy      bool   // an empty Volume does not take over what the image has there
	Propagation string // "", "rprivate", "rslave", "rshared"
	// Yields leaves the mount out where the image's own working directory lies
	// at or below the target: its files would be hidden.
	Yields bool
}

// Tmpfs is an in-memory mount.
type Tmpfs struct {
	Target   string
	SizeMiB  int64
	Mode     uint32
	ReadOnly bool // stays empty: it hides what lies below it
}

// AgentOOMScore makes the agent go before its sidecar when the host itself
// runs out of memory, and both before the host's own services.
const AgentOOMScore = 300

// Device is a device of the host that a sandbox has.
type Device struct {
	Host, Target string
	Permissions  string // letters of "rw"
}

// LogRotation sizes the log that is the backlog for when nobody reads.
type LogRotation struct {
	SizeMiB int64 // of one file
	Files   int64
}

// Ulimit is a process limit.
type Ulimit struct {
	Name string
	Soft int64
	Hard int64
}

// OutputSink takes over the output of a main process. It is called before the
// process starts, and again whenever the substrate had to attach anew.
type OutputSink interface {
	// Follow takes ownership of the stream and returns once it is being read,
	// not when it has ended.
	Follow(ctx context.Context, ref string, s OutputStream) error
}

// OutputStream is the raw output of a main process.
//
// Framed streams are sequences of frames: one byte 1 (stdout) or 2 (stderr),
// three zero bytes, the payload's length as four bytes big-endian, the
// payload. Streams that are not framed come from a terminal and are all stdout.
type OutputStream struct {
	Conn   net.Conn
	Early  []byte // bytes already read off Conn, to be consumed first
	Framed bool
}

// Gap is where the delivered output of a main process ends: what a substrate
// with a log of its own needs to read the rest.
type Gap struct {
	Stream string // "stdout" or "stderr"
	// Delivered is the number of bytes handed on so far.
	Delivered int64
	// Tail holds the last bytes handed on, to find the place again when
	// rotation ate the log's head.
	Tail []byte
}

// Usage is one sample of a sandbox's resource use.
type Usage struct {
	Time time.Time
	// CPU times since the start, and the number of CPUs they are relative to.
	CPUTotal, CPUUser, CPUSystem time.Duration
	ThrottledPeriods             uint64
	ThrottledTime                time.Duration

	MemoryRSS, MemoryCache, MemorySwap, MemoryUsage, MemoryMax uint64 // bytes
	// MemoryMaxKnown and SwapKnown say which of the optional figures are real.
	MemoryMaxKnown, SwapKnown bool
	Pids                      uint64
}
