package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/cli/identity"
	"github.com/wardyn/nomad-driver-wardyn/internal/cli/supervise"
	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

// backend is a plugin with an allocation for one group: what a run drives.
type backend interface {
	// start starts a task; its output goes to the two writers.
	start(ctx context.Context, t jobfile.Task, stdout, stderr io.Writer) (supervise.Process, error)
	// exec runs a command in a task that runs. Without stdin its input is empty.
	exec(ctx context.Context, task string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error)
	// check runs a command in a task that runs, ends it after the timeout, and
	// gives the end of its output.
	check(ctx context.Context, task string, argv []string, timeout time.Duration) (code int, output string, err error)
	// known are the names that texts about a task, or with "" about the group,
	// may refer to.
	known(task string) map[string]string
	// signal sends a signal, by its name, to a task that runs.
	signal(ctx context.Context, task, signal string) error
	// taskDir is a task's directory; "" when it was never prepared.
	taskDir(task string) string
	// allocDir is the allocation's directory.
	allocDir() string
	// close ends the plugin and removes the allocation's directory, or with
	// keep just its secrets and tokens. No task runs any more.
	close(keep bool) error
}

// launchSpec says what a backend is made for.
type launchSpec struct {
	executable string
	config     map[string]any // the plugin's options
	temp       string         // for the plugin's temporary files
	allocRoot  string
	placement  *placement
	nomadVars  jobfile.NomadVars
	identities *identity.Issuer // nil when there are none

	longestKill time.Duration // the client's max_kill_timeout
	out         *printer
	log         io.Writer // the plugin's log; nil drops it
	logLevel    string
}

// launcher makes a backend ready to start tasks.
type launcher func(context.Context, launchSpec) (backend, error)

// pluginBackend drives a plugin process through the client half of the
// protocol.
type pluginBackend struct {
	spec   launchSpec
	plugin *host.Plugin
	alloc  *host.Alloc

	mu    sync.Mutex
	tasks map[string]*host.Task
}

// launchPlugin starts the plugin, waits until it is healthy and prepares the
// allocation.
func launchPlugin(ctx context.Context, s launchSpec) (backend, error) {
	prints := make(chan host.Fingerprint, 1)
	plugin, err := host.Launch(ctx, host.Options{
		Path: s.executable, PluginConfig: s.config, Node: s.placement.node,
		Env: append(os.Environ(), "TMPDIR="+s.temp), // a plugin that is killed leaves its socket there
		Log: s.log, LogLevel: s.logLevel, DieWithClient: true,
		OnEvent:       func(ev host.Event) { s.out.event(ev.TaskName, "Driver: %s", ev.Message) },
		OnFingerprint: func(f host.Fingerprint) { latest(prints, f) },
		OnBreach: func(b host.Breach) {
			if b.Trap != host.TrapLoad { // that one is Launch's own error
				s.out.event("", "The plugin broke the protocol: %s", b.Error())
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start the plugin: %w", &plainError{err})
	}
	b := &pluginBackend{spec: s, plugin: plugin, tasks: map[string]*host.Task{}}
	if err := awaitHealthy(ctx, prints, s.out); err != nil {
		plugin.Close()
		return nil, err
	}
	p := s.placement
	b.alloc, err = plugin.NewAlloc(ctx, host.AllocSpec{
		Root: s.allocRoot, ID: p.alloc, JobID: p.jobID(), JobName: p.jobName(), ParentJobID: p.parentID(), Namespace: p.job.Namespace,
		Group: p.group.Name, DNS: p.dns(), SecretsInMemory: os.Geteuid() == 0,
	})
	if err != nil {
		plugin.Close()
		return nil, &plainError{err}
	}
	return b, nil
}

func (b *pluginBackend) start(ctx context.Context, t jobfile.Task, stdout, stderr io.Writer) (supervise.Process, error) {
	task, err := b.task(t, stdout, stderr)
	if err != nil {
		return nil, err
	}
	if err := b.identify(t, task); err != nil {
		return nil, err
	}
	if err := task.Start(ctx); err != nil {
		return nil, &plainError{err}
	}
	return &pluginProcess{b: b, task: task}, nil
}

// task prepares a task the first time: directories, templates, environment.
func (b *pluginBackend) task(t jobfile.Task, stdout, stderr io.Writer) (*host.Task, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if task := b.tasks[t.Name]; task != nil {
		return task, nil
	}
	dir, err := b.alloc.Dir().AddTask(t.Name)
	if err != nil {
		return nil, err
	}
	p, node := b.spec.placement, b.node()
	tokens := b.tokens(t.Name)
	seen := p.environment(t)
	seen.Tokens = tokens()
	r := renderer{
		taskDir: dir.Dir, shared: b.alloc.Dir().Shared,
		env: taskenv.Build(node, seen, taskenv.ImageDirs), facts: facts(node),
		nomadVars: b.spec.nomadVars, namespace: p.job.Namespace,
	}
	if err := r.payload(t, p.job.Payload); err != nil {
		return nil, err
	}
	rendered, err := r.render(t.Templates)
	if err != nil {
		return nil, err
	}
	task, err := b.alloc.NewTask(host.TaskSpec{
		Name: t.Name, Config: t.Config, User: t.User,
		Env: t.Env, Rendered: rendered, Meta: t.Meta, Tokens: tokens,
		Resources: p.resources(t), Mounts: mounts(t, r.env),
		KillSignal: t.KillSignal, KillTimeout: t.KillTimeout, MaxKillTimeout: b.spec.longestKill,
		Logs:   host.LogSpec{Disabled: t.Logs.Disabled, MaxFiles: t.Logs.MaxFiles, MaxFileMB: int64(t.Logs.MaxFileSizeMB)},
		Stdout: stdout, Stderr: stderr,
	})
	if err == nil {
		b.tasks[t.Name] = task
	}
	return task, err
}

// node is the machine with the attributes that the plugin gave it.
func (b *pluginBackend) node() taskenv.Node {
	n := b.spec.placement.node.Node
	n.Attributes = b.plugin.NodeAttributes()
	return n
}

// mounts are a task's volumes. Where they go may be named by its environment.
func mounts(t jobfile.Task, env map[string]string) []host.Mount {
	var out []host.Mount
	for _, m := range t.Mounts {
		out = append(out, host.Mount{
			RequestName: m.Volume, HostPath: m.HostPath, TaskPath: taskenv.Interpolate(m.Destination, env),
			ReadOnly: m.ReadOnly, PropagationMode: m.Propagation,
		})
	}
	return out
}

// facts are a node's names as templates know them.
func facts(n taskenv.Node) map[string]string {
	out := map[string]string{}
	for prefix, values := range map[string]map[string]string{"node.": n.Facts(), "attr.": n.Attributes, "meta.": n.Meta} {
		for k, v := range values {
			out[prefix+k] = v
		}
	}
	return out
}

func (b *pluginBackend) taskDir(task string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tasks[task]; t != nil {
		return t.Dir().Dir
	}
	return ""
}

func (b *pluginBackend) allocDir() string { return b.alloc.Dir().Dir }

func (b *pluginBackend) close(keep bool) error {
	b.plugin.Close()
	if !keep {
		return b.alloc.Remove()
	}
	var errs []error
	for _, t := range b.tasks {
		err := syscall.Unmount(t.Dir().Secrets, syscall.MNT_DETACH)
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EPERM) { // nothing is mounted there
			errs = append(errs, fmt.Errorf("unmount %s: %w", t.Dir().Secrets, err))
		}
	}
	errs = append(errs, removeTokens(b.allocDir(), tokenFiles(b.spec.placement.group)))
	return errors.Join(errs...)
}

// pluginProcess is one run of a task.
type pluginProcess struct {
	b    *pluginBackend
	task *host.Task
}

var _ supervise.Process = (*pluginProcess)(nil)

func (p *pluginProcess) Wait(ctx context.Context) (supervise.Exit, error) {
	r, err := p.task.Wait(ctx)
	if err != nil {
		return supervise.Exit{}, &plainError{err}
	}
	return supervise.Exit{Code: r.ExitCode, Signal: r.Signal, Err: r.Err}, nil
}

func (p *pluginProcess) Stop(ctx context.Context) error {
	if err := p.task.Stop(ctx); err != nil {
		return &plainError{err}
	}
	return nil
}

// Kill makes the driver destroy the task, which ends the pending wait.
func (p *pluginProcess) Kill(ctx context.Context) error {
	if err := p.b.plugin.DestroyTask(ctx, p.task.ID(), true); err != nil {
		return &plainError{err}
	}
	return nil
}
