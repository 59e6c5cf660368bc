package host

import (
	"io"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

// Options says which plugin to run and as what client.
type Options struct {
	Path string   // the plugin's executable
	Args []string // its arguments
	Env  []string // its whole environment; nil passes this process's on, as an agent does

	// PluginConfig is the content of the operator's config block as a job file parser leaves
	// it: nested blocks are lists of maps. nil is a plugin block without config.
	PluginConfig map[string]any

	Node Node

	// Legacy makes this a client of 1.6: it knows neither Init nor Shutdown and sends no
	// topology.
	Legacy bool

	// Reattach names a process that another Plugin left behind with Detach. If it cannot be
	// reached a new one is started.
	Reattach *Reattach

	Log      io.Writer // the plugin's log lines and our own, as text; nil drops them
	LogLevel string    // trace, debug, info, warn or error; default info

	// DieWithClient has the kernel kill the plugin's processes when this one ends
	// without Close or Detach. No Nomad client does that.
	DieWithClient bool

	OnEvent       func(Event)       // each task event of the driver
	OnFingerprint func(Fingerprint) // each fingerprint
	OnBreach      func(Breach)      // each breach of the protocol, also those beyond the kept ones

	// RelaunchWait is the pause after a failed relaunch, doubled up to 2 minutes. Default 5 s.
	RelaunchWait time.Duration
}

// Node is the client node a plugin finds itself on.
type Node struct {
	taskenv.Node
	MinPort uint32 // of the range a plugin may listen in; default 14000
	MaxPort uint32 // default 14512
	Cores   []Core // default: one for each CPU of this machine
}

// Core is one CPU core of the node.
type Core struct {
	ID       uint32
	NodeID   uint32 // of the memory node
	SocketID uint32
	MHz      uint64
	Disabled bool
}

// Reattach is how to find a running plugin process again.
type Reattach struct {
	Network string // unix or tcp
	Addr    string
	Pid     int
}

func (o Options) logger() hclog.Logger {
	if o.Log == nil {
		return hclog.NewNullLogger()
	}
	level := hclog.LevelFromString(o.LogLevel)
	if level == hclog.NoLevel {
		level = hclog.Info
	}
	return hclog.New(&hclog.LoggerOptions{Name: "driver_mgr", Output: o.Log, Level: level})
}

func (o Options) withDefaults() Options {
	if o.RelaunchWait == 0 {
		o.RelaunchWait = 5 * time.Second
	}
	if o.Node.MinPort == 0 && o.Node.MaxPort == 0 {
		o.Node.MinPort, o.Node.MaxPort = 14000, 14512
	}
	if len(o.Node.Cores) == 0 {
		o.Node.Cores = localCores()
	}
	return o
}
