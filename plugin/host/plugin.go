package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// ErrPluginGone is a call's error when the plugin process died under it. A new process is
// started; the task can be handed to it with RecoverTask.
var ErrPluginGone = errors.New("plugin is shut down")

// ErrClosed is a call's error after Close or Detach.
var ErrClosed = errors.New("client is shut down")

const (
	shutdownTimeout = 2 * time.Second // for the plugin's Shutdown
	maxRelaunchWait = 2 * time.Minute
)

// Plugin is a task driver plugin under the care of a client. Its methods may be called
// concurrently.
type Plugin struct {
	opts     Options
	log      hclog.Logger
	launcher launcher
	breaches *breachLog
	node     *nodeState
	info     Info
	config   []byte // the operator's configuration, encoded

	// codeGrace is how long a call that failed with a dead plugin's code waits for the process
	// to be gone before it takes the code for an ordinary error.
	codeGrace time.Duration
	// stopRetries are the pauses after a StopTask that failed.
	stopRetries []time.Duration

	life context.Context // ends with Close or Detach
	end  context.CancelFunc
	care sync.WaitGroup // the goroutines that look after the plugin

	mu       sync.Mutex
	current  *instance            // nil while the plugin is down
	launched int                  // processes that were brought up so far
	lastErr  error                // why the last relaunch failed
	knows    map[string]*instance // by task id, which process was given the task
	changed  chan struct{}        // closed and replaced when current or lastErr change
}

// Launch starts the plugin executable as an agent does when it starts: asked once, tried once,
// then started to stay. It returns when the lasting process has its configuration; ctx bounds
// the launch, not the plugin's life.
func Launch(ctx context.Context, o Options) (*Plugin, error) {
	p := newPlugin(o)
	p.launcher = &processLauncher{opts: p.opts, log: p.log, breaches: p.breaches}
	return p.bring(ctx)
}

// InMemory is [Launch] for a plugin inside this process. newServer is called for each process
// an agent would start, and again after each Crash; a server that is an io.Closer is closed
// when its process would end.
func InMemory(ctx context.Context, newServer func(hclog.Logger) wire.Server, o Options) (*Plugin, error) {
	p := newPlugin(o)
	p.launcher = &memoryLauncher{newServer: newServer, newGRPC: wire.NewGRPCServer, log: p.log}
	return p.bring(ctx)
}

func newPlugin(o Options) *Plugin {
	o = o.withDefaults()
	p := &Plugin{
		opts: o, log: o.logger(), breaches: &breachLog{notify: o.OnBreach}, changed: make(chan struct{}), knows: map[string]*instance{},
		codeGrace: 3 * time.Second,
		stopRetries: []time.Duration{
			5 * time.Second, 20 * time.Second, 80 * time.Second, 2 * time.Minute, 2 * time.Minute,
		},
	}
	p.node = newNodeState(o.Node.Attributes)
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

func (p *Plugin) bring(ctx context.Context) (*Plugin, error) {
	inst, err := p.first(ctx)
	if err != nil {
		p.end()
		return nil, err
	}
	p.node.driver = p.info.Name
	p.setCurrent(inst, nil)
	p.care.Go(func() { p.supervise(inst) })
	return p, nil
}

// first loads the plugin and gets the lasting process, the one left behind if there is one.
func (p *Plugin) first(ctx context.Context) (*instance, error) {
	if err := p.load(ctx); err != nil {
		return nil, err
	}
	if p.opts.Reattach != nil {
		inst, err := p.readopt(ctx, *p.opts.Reattach)
		if err == nil {
			return inst, nil
		}
		p.log.Warn("failed to reattach to plugin, starting new instance", "error", err)
	}
	return p.launchLasting(ctx)
}

// launchLasting starts a process and gives it its configuration.
func (p *Plugin) launchLasting(ctx context.Context) (*instance, error) {
	inst, err := p.launcher.start()
	if err != nil {
		return nil, err
	}
	_, err = inst.Base.SetConfig(ctx, &basepb.SetConfigRequest{
		MsgpackConfig: p.config, NomadConfig: nomadConfig(p.opts), PluginApiVersion: wire.APIVersion,
	})
	if err == nil {
		err = p.init(ctx, inst)
	}
	if err != nil {
		inst.kill()
		return nil, fmt.Errorf("dispensing plugin failed: %w", err)
	}
	return inst, nil
}

// readopt takes a running process over. It keeps the configuration it has.
func (p *Plugin) readopt(ctx context.Context, r Reattach) (*instance, error) {
	inst, err := p.launcher.reattach(r)
	if err != nil {
		return nil, err
	}
	if p.info, err = p.askInfo(ctx, inst); err == nil {
		err = p.init(ctx, inst)
	}
	if err != nil {
		inst.detach()
		return nil, err
	}
	return inst, nil
}

func (p *Plugin) init(ctx context.Context, inst *instance) error {
	if p.opts.Legacy {
		return nil
	}
	_, err := inst.Driver.Init(ctx, &driverpb.InitRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return fmt.Errorf("call Init: %w", err)
	}
	return nil
}

// supervise keeps the streams of the plugin open and starts it anew when it dies.
func (p *Plugin) supervise(inst *instance) {
	for inst != nil {
		p.followStreams(inst)
		if p.life.Err() != nil {
			return
		}
		p.log.Error("plugin process exited, starting it anew")
		p.node.lost()
		p.setCurrent(nil, nil)
		inst = p.relaunch()
	}
}

// relaunch tries until it works; nil when the client ends first.
func (p *Plugin) relaunch() *instance {
	for wait := p.opts.RelaunchWait; ; wait = min(2*wait, maxRelaunchWait) {
		inst, err := p.launchLasting(p.life)
		if err == nil {
			p.setCurrent(inst, nil)
			return inst
		}
		if p.life.Err() != nil {
			return nil
		}
		p.log.Error("failed to relaunch plugin", "error", err)
		p.setCurrent(nil, err)
		select {
		case <-time.After(wait):
		case <-p.life.Done():
			return nil
		}
	}
}

func (p *Plugin) setCurrent(inst *instance, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if inst != nil {
		p.launched++
	}
	p.current, p.lastErr = inst, err
	close(p.changed)
	p.changed = make(chan struct{})
}

// instance is the running plugin. While there is none it waits for the next attempt to start
// one, and returns that attempt's error if it fails.
func (p *Plugin) instance(ctx context.Context) (*instance, error) {
	for {
		p.mu.Lock()
		inst, lastErr, changed := p.current, p.lastErr, p.changed
		p.mu.Unlock()
		switch {
		case p.life.Err() != nil:
			return nil, ErrClosed
		case inst != nil && !isClosed(inst.exited):
			return inst, nil
		case lastErr != nil:
			return nil, fmt.Errorf("%w: %w", ErrPluginGone, lastErr)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.life.Done():
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
