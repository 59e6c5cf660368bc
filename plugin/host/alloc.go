package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host/allocdir"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/logmon"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

// AllocSpec is an allocation: one instance of a task group.
type AllocSpec struct {
	Root        string // directory in which the allocation's own is made
	ID          string
	JobID       string
	JobName     string
	ParentJobID string
	Namespace   string
	Group       string
	Index       int
	Network     *NetworkIsolation // nil: the host's network
	DNS         *DNS

	// SecretsInMemory puts each task's secrets on a tmpfs, as a client that is root does.
	SecretsInMemory bool
}

// TaskSpec is a task as its job describes it.
type TaskSpec struct {
	Name   string
	Config map[string]any    // see EncodeTaskConfig
	Env    map[string]string // values may refer to Nomad's variables and node facts
	// Rendered are the variables that templates make; they are taken as they are.
	Rendered map[string]string
	Meta     map[string]string // of job, group and task, the innermost winning
	// Tokens gives the variables with tokens of workload identities, anew for
	// each start. It may be nil.
	Tokens      func() map[string]string
	User        string
	Resources   Resources // CPUFraction is worked out when 0
	Mounts      []Mount
	Devices     []Device
	KillSignal  string        // empty is the driver's choice
	KillTimeout time.Duration // default 5 s; at most MaxKillTimeout
	// MaxKillTimeout is what a client's max_kill_timeout says; default 30 s, as there.
	MaxKillTimeout time.Duration
	Logs           LogSpec
	Stdout         io.Writer // gets a copy of what the task prints; may be nil
	Stderr         io.Writer

	StatsInterval time.Duration // default 1 s; negative asks for no samples
}

// LogSpec is a job's logs block.
type LogSpec struct {
	Disabled  bool
	MaxFiles  int   // default 10
	MaxFileMB int64 // default 10
}

// Alloc is a prepared allocation.
type Alloc struct {
	plugin *Plugin
	spec   AllocSpec
	caps   Capabilities
	dir    *allocdir.Alloc
}

// NewAlloc prepares the directories of an allocation, or takes the ones an earlier client left.
func (p *Plugin) NewAlloc(ctx context.Context, spec AllocSpec) (*Alloc, error) {
	caps, err := p.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	if caps.FSIsolation == IsolationChroot || caps.FSIsolation == IsolationUnveil {
		return nil, errors.New("the driver wants a chroot or unveil, which this client cannot prepare")
	}
	dir, err := allocdir.New(spec.Root, spec.ID, spec.SecretsInMemory)
	if err != nil {
		return nil, err
	}
	return &Alloc{plugin: p, spec: spec, caps: caps, dir: dir}, nil
}

// Dir is the allocation's directory on the host.
func (a *Alloc) Dir() *allocdir.Alloc { return a.dir }

// Remove deletes the allocation's directories. Its tasks must have ended.
func (a *Alloc) Remove() error { return a.dir.Remove() }

// NewTask prepares a task's directories and log collection. Nothing runs before Start; files
// may be put into the directories meanwhile.
func (a *Alloc) NewTask(spec TaskSpec) (*Task, error) {
	if spec.KillTimeout == 0 {
		spec.KillTimeout = defaultKillTimeout
	}
	if spec.MaxKillTimeout == 0 {
		spec.MaxKillTimeout = maxKillTimeout
	}
	spec.KillTimeout = min(spec.KillTimeout, spec.MaxKillTimeout)
	if spec.StatsInterval == 0 {
		spec.StatsInterval = time.Second
	}
	if total := a.plugin.opts.Node.TotalMHz(); spec.Resources.CPUFraction == 0 && total > 0 {
		spec.Resources.CPUFraction = float64(spec.Resources.CPU) / float64(total)
	}
	dir, err := a.dir.AddTask(spec.Name)
	if err != nil {
		return nil, err
	}
	t := &Task{alloc: a, spec: spec, dir: dir}
	if err := t.prepareLogs(); err != nil {
		return nil, err
	}
	return t, nil
}

// noLogs is the path a task without log collection writes to.
const noLogs = "/dev/null"

// prepareLogs makes the two FIFOs. A driver that wants no collection still gets their paths,
// though nothing is there.
func (t *Task) prepareLogs() error {
	t.stdout, t.stderr = noLogs, noLogs
	if t.spec.Logs.Disabled {
		return nil
	}
	fifo := func(stream string) string {
		return filepath.Join(t.alloc.dir.Logs, fmt.Sprintf(".%s.%s.fifo", t.spec.Name, stream))
	}
	t.stdout, t.stderr = fifo("stdout"), fifo("stderr")
	if t.alloc.caps.DisableLogCollection {
		return nil
	}
	for stream, tee := range map[string]io.Writer{"stdout": t.spec.Stdout, "stderr": t.spec.Stderr} {
		c, err := logmon.New(logmon.Config{
			FIFO: fifo(stream), Dir: t.alloc.dir.Logs, Name: t.spec.Name + "." + stream,
			MaxFiles: t.spec.Logs.MaxFiles, MaxBytes: t.spec.Logs.MaxFileMB * mebibyte, Tee: tee,
		})
		if err != nil {
			return err
		}
		t.logs = append(t.logs, c)
	}
	return nil
}

// Env is the task's environment as the next start will have it.
func (t *Task) Env() map[string]string {
	a, r := t.alloc, t.spec.Resources
	env := taskenv.Task{
		JobID: a.spec.JobID, JobName: a.spec.JobName, ParentJobID: a.spec.ParentJobID, Namespace: a.spec.Namespace,
		Group: a.spec.Group, Name: t.spec.Name, AllocID: a.spec.ID, AllocIndex: a.spec.Index,
		CPU: r.CPU, MemoryMB: r.MemoryMB, MemoryMaxMB: r.MemoryMaxMB, Cores: r.Cores,
		Meta: t.spec.Meta, Env: t.spec.Env, Rendered: t.spec.Rendered,
	}
	if t.spec.Tokens != nil {
		env.Tokens = t.spec.Tokens()
	}
	for _, p := range r.Ports {
		env.Ports = append(env.Ports, taskenv.Port(p))
	}
	dirs := taskenv.ImageDirs
	if a.caps.FSIsolation == IsolationNone {
		dirs = taskenv.Dirs{Alloc: a.dir.Shared, Local: t.dir.Local, Secrets: t.dir.Secrets}
	}
	node := a.plugin.opts.Node.Node
	node.Attributes = a.plugin.NodeAttributes()
	return taskenv.Build(node, env, dirs)
}

// logDrain is how long the output of an ended task may still come. A driver that keeps its end
// open longer loses the rest.
const logDrain = 2 * time.Second

// closeLogs waits for the end of the output and stops reading.
func (t *Task) closeLogs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, logDrain)
	defer cancel()
	errs := make([]error, len(t.logs))
	var both sync.WaitGroup
	for i, c := range t.logs {
		both.Go(func() {
			if c.Wait(ctx) != nil {
				t.alloc.plugin.log.Warn("output of an ended task is still open", "task", t.spec.Name)
			}
			errs[i] = c.Close()
		})
	}
	both.Wait()
	return errors.Join(errs...)
}
