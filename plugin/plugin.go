package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// Options are what a Plugin is made of.
type Options struct {
	// Build makes the backend. It is called when the first call needs one, at
	// most once successfully.
	Build Build
	// Version is the plugin's, as a semantic version.
	Version string
	// Superseded is called when the client of this process is gone and another
	// process has taken its tasks over: this one should end. May be nil.
	Superseded func()
}

// Plugin answers a Nomad client. Its methods are the RPCs; they may be called
// concurrently.
type Plugin struct {
	basepb.UnimplementedBasePluginServer
	driverpb.UnimplementedDriverServer

	opts Options
	log  *slog.Logger

	// life ends when this process does with the plugin. Sandboxes outlive it.
	life context.Context
	end  context.CancelFunc

	events *events
	health *health
	tasks  *store
	reaper *reaper

	mu      sync.Mutex // guards what follows
	host    HostConfig
	compute compute
	built   *Backend
	// See Claim: how many streams clients have open, and whether there were none
	// for so long that the claim is given up.
	clients  int
	orphaned bool
}

var _ wire.Server = (*Plugin)(nil)

// New makes a Plugin. It touches nothing outside this process: clients start
// the plugin several times while an older instance still manages tasks.
func New(o Options, log hclog.Logger) *Plugin {
	life, end := context.WithCancel(context.Background())
	p := &Plugin{
		opts: o, log: slog.New(newLogHandler(log)), life: life, end: end,
		events: newEvents(), tasks: newStore(), compute: localCompute(),
	}
	p.health = newHealth(p.examine)
	p.reaper = newReaper(p)
	return p
}

// Serve answers the Nomad client that started this process until it lets go.
// The process should end when Serve returns.
func Serve(o Options) {
	var p *Plugin
	wire.Serve(func(log hclog.Logger) wire.Server {
		p = New(o, log)
		return p
	})
	if p != nil {
		p.Close()
	}
}

// LaunchedByNomad reports whether a Nomad client started this process as its
// plugin.
func LaunchedByNomad() bool { return wire.LaunchedByClient() }

// Close ends what the plugin does in this process. Tasks go on, and calls that
// wait for one end without a result.
func (p *Plugin) Close() error {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.built == nil || p.built.Close == nil {
		return nil
	}
	return p.built.Close()
}

// PluginInfo says who this is.
func (p *Plugin) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	return about(p.opts.Version), nil
}

// ConfigSchema is the schema of the operator's options.
func (p *Plugin) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	return &basepb.ConfigSchemaResponse{Spec: configSpec()}, nil
}

// SetConfig takes the operator's options. Bad values are its only error, and
// it does nothing else: it is called several times, also by processes that are
// only to try the options. Once the backend exists they stay as they are.
func (p *Plugin) SetConfig(_ context.Context, r *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	h, err := ReadHostConfig(r.GetMsgpackConfig())
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.built != nil {
		if !reflect.DeepEqual(h, p.host) {
			p.log.Warn("new options are taken up when the agent restarts")
		}
		return &basepb.SetConfigResponse{}, nil
	}
	p.host = h
	if t := r.GetNomadConfig().GetDriver().GetTopology(); t != nil {
		p.compute = topologyCompute(t)
	}
	return &basepb.SetConfigResponse{}, nil
}

// ReadHostConfig decodes and checks the operator's options as they travel.
func ReadHostConfig(data []byte) (HostConfig, error) {
	var c Config
	var misfit faults
	if err := misfit.read(data, &c); err != nil {
		return HostConfig{}, fmt.Errorf("the plugin's config is refused: %w", err)
	}
	return hostConfig(c, misfit.list...)
}

// TaskConfigSchema is the schema of a task's config.
func (p *Plugin) TaskConfigSchema(context.Context, *driverpb.TaskConfigSchemaRequest) (*driverpb.TaskConfigSchemaResponse, error) {
	return &driverpb.TaskConfigSchemaResponse{Spec: taskSpec()}, nil
}

// Capabilities is what clients may rely on.
func (p *Plugin) Capabilities(context.Context, *driverpb.CapabilitiesRequest) (*driverpb.CapabilitiesResponse, error) {
	return &driverpb.CapabilitiesResponse{Capabilities: capabilities()}, nil
}

// Init is called on a fresh process and after a reattach, so it does nothing:
// what is to be set up is set up when it is first needed.
func (p *Plugin) Init(context.Context, *driverpb.InitRequest) (*driverpb.InitResponse, error) {
	return &driverpb.InitResponse{}, nil
}

// Shutdown comes before the process is ended. Tasks stay and nobody who waits
// for one is answered: it has not exited.
func (p *Plugin) Shutdown(context.Context, *driverpb.ShutdownRequest) (*driverpb.ShutdownResponse, error) {
	return &driverpb.ShutdownResponse{}, nil
}

var errNoNetworks = errors.New("this driver makes no group networks: Nomad does; a sandbox stands beside it, behind its own proxy")

// CreateNetwork is never called by a client, since must_create_network is not
// declared.
func (p *Plugin) CreateNetwork(context.Context, *driverpb.CreateNetworkRequest) (*driverpb.CreateNetworkResponse, error) {
	return nil, errNoNetworks
}

// DestroyNetwork is never called by a client, as CreateNetwork is not.
func (p *Plugin) DestroyNetwork(context.Context, *driverpb.DestroyNetworkRequest) (*driverpb.DestroyNetworkResponse, error) {
	return nil, errNoNetworks
}

// backend is the backend, made now if there is none.
func (p *Plugin) backend() (*Backend, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.life.Err()
	switch {
	case p.built != nil:
		err = p.reclaim()
	case err == nil:
		p.built, err = p.build()
	}
	if err != nil {
		return nil, fmt.Errorf("the driver cannot work on this node: %w", err)
	}
	return p.built, nil
}

// build makes the backend, with its claim taken; nil when it fails. One that
// does not come to work is closed again: this is tried anew for as long as it
// takes.
func (p *Plugin) build() (*Backend, error) {
	b, err := p.opts.Build(p.life, p.host, p.log)
	if err != nil {
		return nil, err
	}
	if err = b.begin(p.life); err == nil {
		go p.prepull(p.life, b.Driver, p.host.Images.Prepull, prepullAgain)
		return b, nil
	}
	if b.Close != nil {
		err = errors.Join(err, b.Close())
	}
	return nil, err
}

// options are the operator's, and the node's compute.
func (p *Plugin) options() (HostConfig, compute) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host, p.compute
}
