package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	engine "github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Inspector asks an engine questions and makes nothing: for commands that say
// what would become of a task, or of a node. It needs no data dir.
type Inspector struct {
	runner *Runner // with nothing but what asking needs
}

// NewInspector is for the engine at endpoint; "" is the usual socket.
func NewInspector(endpoint string) (*Inspector, error) {
	c, endpoint, err := connect(endpoint)
	if err != nil {
		return nil, err
	}
	return &Inspector{&Runner{opts: Options{Endpoint: endpoint}, api: c}}, nil
}

// connect makes a client for a local socket. It does not talk to it yet.
func connect(endpoint string) (*client.Client, string, error) {
	if endpoint == "" {
		endpoint = client.DefaultDockerHost
	}
	if !strings.HasPrefix(endpoint, "unix://") {
		return nil, "", fmt.Errorf("endpoint %q: only a local engine can be used; want unix:///path/to/docker.sock", endpoint)
	}
	c, err := client.NewClientWithOpts(client.WithHost(endpoint), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, "", fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	return c, endpoint, nil
}

// Close lets go of the engine.
func (i *Inspector) Close() error { return i.runner.api.Close() }

// Endpoint is the engine's socket.
func (i *Inspector) Endpoint() string { return i.runner.opts.Endpoint }

// Inspection is what an engine and its host say of themselves.
type Inspection struct {
	Version, Containerd, Runc   string
	Kernel, StorageDriver, Root string
	CgroupDriver, CgroupVersion string
	DefaultRuntime              string
	Runtimes                    []RegisteredRuntime // by name
	Networks                    []EngineNetwork
	AppArmor, SELinux, Seccomp  bool
	UserNamespaces, DiskQuota   bool
	IsolatedGateway             bool
	// BridgeFilter: the firewall sees traffic within a bridge.
	BridgeFilter bool

	facts hostFacts
}

// RegisteredRuntime is one runtime of an engine.
type RegisteredRuntime struct {
	Name, Path string
	Args       []string
	// Missing: there is no program at Path.
	Missing bool
}

// EngineNetwork is a network of an engine. Instance is the installation that
// made it; "" is somebody else.
type EngineNetwork struct {
	Name, Instance string
	Subnets        []netip.Prefix
}

// Inspect asks the engine about itself.
func (i *Inspector) Inspect(ctx context.Context) (Inspection, error) {
	facts, err := i.runner.facts(ctx)
	if err != nil {
		return Inspection{}, err
	}
	ctx, cancel := call(ctx)
	defer cancel()
	info, err := i.runner.api.Info(ctx)
	if err != nil {
		return Inspection{}, wrap("ask the engine", err)
	}
	version, err := i.runner.api.ServerVersion(ctx)
	if err != nil {
		return Inspection{}, wrap("ask the engine for its version", err)
	}
	out := inspectionOf(info, version, facts)
	out.BridgeFilter = bridgeFilterOn()
	for n, rt := range out.Runtimes {
		out.Runtimes[n].Missing = missing(rt.Path)
	}
	out.Networks, err = i.networks(ctx)
	return out, err
}

// inspectionOf puts the engine's answers together.
func inspectionOf(info system.Info, version engine.Version, facts hostFacts) Inspection {
	out := Inspection{
		Version: info.ServerVersion, Kernel: info.KernelVersion, StorageDriver: info.Driver, Root: info.DockerRootDir,
		CgroupDriver: info.CgroupDriver, CgroupVersion: info.CgroupVersion, DefaultRuntime: info.DefaultRuntime,
		AppArmor: facts.AppArmor, SELinux: facts.SELinux, UserNamespaces: facts.UserNamespaces,
		DiskQuota: facts.DiskQuota, IsolatedGateway: facts.isolatedGateway(), facts: facts,
	}
	for _, c := range version.Components {
		switch c.Name {
		case "containerd":
			out.Containerd = c.Version
		case "runc":
			out.Runc = c.Version
		}
	}
	for _, o := range info.SecurityOptions {
		out.Seccomp = out.Seccomp || strings.HasPrefix(o, "name=seccomp") && !strings.Contains(o, "profile=unconfined")
	}
	for _, name := range slices.Sorted(maps.Keys(info.Runtimes)) {
		rt := info.Runtimes[name]
		out.Runtimes = append(out.Runtimes, RegisteredRuntime{Name: name, Path: rt.Path, Args: rt.Args})
	}
	return out
}

// missing tells whether there is certainly no program at a runtime's path. A
// bare name is looked up by the engine, with a search path of its own.
func missing(path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func (i *Inspector) networks(ctx context.Context) ([]EngineNetwork, error) {
	list, err := i.runner.api.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return nil, wrap("list networks", err)
	}
	var out []EngineNetwork
	for _, n := range list {
		e := EngineNetwork{Name: n.Name, Instance: n.Labels[labelInstance]}
		for _, c := range n.IPAM.Config {
			if p, err := netip.ParsePrefix(c.Subnet); err == nil {
				e.Subnets = append(e.Subnets, p.Masked())
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// Runtime is the registered runtime that would give a class; pin is the
// operator's for it. That it is registered does not show that it works.
func (s Inspection) Runtime(class types.ConfinementClass, pin string) (string, error) {
	return resolveRuntime(class, s.facts, pin)
}

// CheckSandbox finds what would keep a sandbox from being created on this host,
// as far as it can be told without making anything: one error for each fault,
// that begins with the option. Mounts are not looked at, since their sources may
// not exist yet. present says whether the image is there; one that is not is
// not judged.
func (i *Inspector) CheckSandbox(ctx context.Context, s Inspection, spec runner.SandboxSpec, limit runner.Resources) (present bool, errs []error) {
	spec.Resources = withDefaults(spec.Resources, limit)
	if spec.Task != nil {
		task := *spec.Task
		task.Mounts = nil
		spec.Task = &task
	}
	errs = each(checkSpec(spec, s.facts, "", limit, nil))
	img, err := i.runner.inspectImage(ctx, spec.Image)
	switch {
	case errors.Is(err, runner.ErrNotFound):
		return false, errs
	case err != nil:
		return false, append(errs, err)
	}
	return true, append(errs, each(checkImage(spec, img, s.facts))...)
}

// each are the errors that invalid joined.
func each(err error) []error {
	if err == nil {
		return nil
	}
	wrapped, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, inner := range wrapped.Unwrap() {
		if joined, ok := inner.(interface{ Unwrap() []error }); ok {
			return joined.Unwrap()
		}
	}
	return []error{err}
}
