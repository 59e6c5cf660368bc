package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/registry"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// fakeEngine is an engine in memory: what is created can be listed, inspected
// and removed, and nothing runs. Methods nobody here calls are the nil
// interface's and would panic.
type fakeEngine struct {
	api

	mu         sync.Mutex
	calls      []string
	containers map[string]*container.InspectResponse // by id
	networks   map[string]*network.Inspect           // by id
	images     map[string]image.InspectResponse      // by reference
	volumes    map[string]volume.Volume
	next       int

	info       system.Info
	warnings   []string // of creates, of warnedKind alone when that is set
	warnedKind string
	// before may fail a call instead of running it; after may fail one that ran.
	before, after func(n int, call string) error
	// started is called when a container starts.
	started func(name string)
	// pull is what a pull puts in the store; nil fails.
	pull map[string]image.InspectResponse
	// pullStalls: a pull begins and then says nothing more.
	pullStalls bool
	// admits judges who may have an image; nil is a registry that is away,
	// from which pulls succeed.
	admits func(ref, auth string) error
	// says is what a pull says; "" is one word.
	says io.Reader
	// exits is the exit code of a container that ends at once.
	exits map[string]int64
	logs  map[string]string
	// stuck: no call is ever answered; stuckOn: none of that name.
	stuck   bool
	stuckOn string
	// late are makings whose caller did not wait for the answer: an engine goes
	// on with them.
	late []func() error
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{
		containers: make(map[string]*container.InspectResponse), networks: make(map[string]*network.Inspect),
		images: map[string]image.InspectResponse{"agent:1": {ID: "sha256:agent", Architecture: "amd64", Os: "linux",
			Config: &dockerspec.DockerOCIImageConfig{}}},
		volumes: make(map[string]volume.Volume), exits: make(map[string]int64), logs: make(map[string]string),
		info: system.Info{ID: "fake", ServerVersion: "20.10.24", NCPU: 2, Architecture: "x86_64", DefaultRuntime: "runc", KernelVersion: "6.1.0",
			DockerRootDir: "/var/lib/docker", Driver: "overlay2",
			Runtimes: map[string]system.RuntimeWithStatus{"runc": {}, "runsc": {}}},
	}
}

// do counts a call and runs it between the two hooks.
func (f *fakeEngine) do(ctx context.Context, name string, run func() error) error {
	f.mu.Lock()
	f.calls = append(f.calls, name)
	n := len(f.calls)
	before, after := f.before, f.after
	stuck := f.stuck || name == f.stuckOn
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
	}
	if before != nil {
		if err := before(n, name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		if !stuck && strings.Contains(name, "Create ") {
			f.mu.Lock()
			f.late = append(f.late, run)
			f.mu.Unlock()
		}
		return err
	}
	f.mu.Lock()
	err := run()
	f.mu.Unlock()
	if err == nil && after != nil {
		err = after(n, name)
	}
	return err
}

func notFound(what string) error {
	return fmt.Errorf("No such %s: %w", what, errdefs.ErrNotFound)
}

// labelled lists what is there, ours or not, with what came late.
func (f *fakeEngine) labelled() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, run := range f.late {
		run() // it may well fail now
	}
	f.late = nil
	for _, c := range f.containers {
		out = append(out, "container "+c.Name)
	}
	for _, n := range f.networks {
		out = append(out, "network "+n.Name)
	}
	return out
}

func (f *fakeEngine) Close() error { return nil }

func (f *fakeEngine) Info(ctx context.Context) (info system.Info, err error) {
	err = f.do(ctx, "Info", func() error { info = f.info; return nil })
	return info, err
}

func (f *fakeEngine) find(id string) *container.InspectResponse {
	for _, c := range f.containers {
		if c.ID == id || strings.TrimPrefix(c.Name, "/") == strings.TrimPrefix(id, "/") {
			return c
		}
	}
	return nil
}

func (f *fakeEngine) ContainerCreate(ctx context.Context, c *container.Config, h *container.HostConfig, n *network.NetworkingConfig, _ *ocispec.Platform, name string) (resp container.CreateResponse, err error) {
	err = f.do(ctx, "ContainerCreate "+kind(name), func() error {
		known := false
		for _, i := range f.images {
			known = known || i.ID == c.Image
		}
		if !known {
			return notFound("image: " + c.Image)
		}
		if f.find(name) != nil {
			return fmt.Errorf("name %s is in use: %w", name, errdefs.ErrConflict)
		}
		f.next++
		id := fmt.Sprintf("c%011d", f.next)
		f.containers[id] = &container.InspectResponse{
			ContainerJSONBase: &container.ContainerJSONBase{ID: id, Name: "/" + name, HostConfig: h, State: &container.State{Status: container.StateCreated}},
			Config:            c,
		}
		resp = container.CreateResponse{ID: id}
		if f.warnedKind == "" || f.warnedKind == kind(name) {
			resp.Warnings = f.warnings
		}
		return nil
	})
	return resp, err
}

func (f *fakeEngine) ContainerStart(ctx context.Context, id string, _ container.StartOptions) error {
	name := ""
	err := f.do(ctx, "ContainerStart "+f.kindOf(id), func() error {
		c := f.find(id)
		if c == nil {
			return notFound("container: " + id)
		}
		name = strings.TrimPrefix(c.Name, "/")
		c.State.Running, c.State.Status = true, container.StateRunning
		return nil
	})
	if err == nil && f.started != nil {
		f.started(name)
	}
	return err
}

func (f *fakeEngine) ContainerStop(ctx context.Context, id string, _ container.StopOptions) error {
	return f.do(ctx, "ContainerStop "+f.kindOf(id), func() error { return f.halt(id) })
}

func (f *fakeEngine) ContainerKill(ctx context.Context, id, _ string) error {
	return f.do(ctx, "ContainerKill "+f.kindOf(id), func() error { return f.halt(id) })
}

func (f *fakeEngine) halt(id string) error {
	c := f.find(id)
	switch {
	case c == nil:
		return notFound("container: " + id)
	case c.State.Paused:
		return fmt.Errorf("container %s is paused: %w", id, errdefs.ErrConflict)
	case !c.State.Running:
		return fmt.Errorf("container %s is not running: %w", id, errdefs.ErrConflict)
	}
	c.State.Running, c.State.Status = false, container.StateExited
	return nil
}

func (f *fakeEngine) ContainerUnpause(ctx context.Context, id string) error {
	return f.do(ctx, "ContainerUnpause "+f.kindOf(id), func() error {
		if c := f.find(id); c != nil {
			c.State.Paused = false
		}
		return nil
	})
}

func (f *fakeEngine) ContainerRemove(ctx context.Context, id string, _ container.RemoveOptions) error {
	return f.do(ctx, "ContainerRemove "+f.kindOf(id), func() error {
		c := f.find(id)
		if c == nil {
			return notFound("container: " + id)
		}
		delete(f.containers, c.ID)
		return nil
	})
}

func (f *fakeEngine) ContainerInspect(ctx context.Context, id string) (resp container.InspectResponse, err error) {
	err = f.do(ctx, "ContainerInspect "+f.kindOf(id), func() error {
		c := f.find(id)
		if c == nil {
			return notFound("container: " + id)
		}
		resp = *c
		base, state := *c.ContainerJSONBase, *c.State
		base.State = &state
		resp.ContainerJSONBase = &base
		return nil
	})
	return resp, err
}

func (f *fakeEngine) ContainerList(ctx context.Context, o container.ListOptions) (out []container.Summary, err error) {
	err = f.do(ctx, "ContainerList", func() error {
		for _, c := range f.containers {
			if o.Filters.MatchKVList("label", c.Config.Labels) {
				state := c.State.Status
				if c.State.Paused {
					state = container.StatePaused
				}
				out = append(out, container.Summary{ID: c.ID, Names: []string{c.Name}, Labels: c.Config.Labels, State: state, ImageID: c.Config.Image})
			}
		}
		return nil
	})
	return out, err
}

func (f *fakeEngine) ContainerWait(_ context.Context, id string, _ container.WaitCondition) (<-chan container.WaitResponse, <-chan error) {
	exited, failed := make(chan container.WaitResponse, 1), make(chan error, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(id); c != nil {
		if code, ok := f.exits[kind(c.Name)]; ok {
			exited <- container.WaitResponse{StatusCode: code}
		}
	}
	return exited, failed
}

func (f *fakeEngine) ContainerLogs(_ context.Context, id string, _ container.LogsOptions) (io.ReadCloser, error) {
	text := f.logs[f.kindOf(id)]
	head := []byte{1, 0, 0, 0, byte(len(text) >> 24), byte(len(text) >> 16), byte(len(text) >> 8), byte(len(text))}
	return io.NopCloser(bytes.NewReader(append(head, text...))), nil
}

func (f *fakeEngine) NetworkCreate(ctx context.Context, name string, o network.CreateOptions) (resp network.CreateResponse, err error) {
	err = f.do(ctx, "NetworkCreate "+kind(name), func() error {
		subnet := netip.MustParsePrefix(o.IPAM.Config[0].Subnet)
		for _, n := range f.networks {
			if netip.MustParsePrefix(n.IPAM.Config[0].Subnet).Overlaps(subnet) {
				return fmt.Errorf("Pool overlaps with other one on this address space: %w", errdefs.ErrPermissionDenied)
			}
		}
		f.next++
		id := fmt.Sprintf("n%011d", f.next)
		f.networks[id] = &network.Inspect{ID: id, Name: name, Driver: o.Driver, Internal: o.Internal, IPAM: *o.IPAM,
			Options: o.Options, Labels: o.Labels, EnableIPv6: *o.EnableIPv6, Containers: map[string]network.EndpointResource{}}
		resp.ID = id
		return nil
	})
	return resp, err
}

func (f *fakeEngine) NetworkConnect(ctx context.Context, id, containerID string, _ *network.EndpointSettings) error {
	return f.do(ctx, "NetworkConnect", func() error {
		if f.networks[id] == nil || f.find(containerID) == nil {
			return notFound("network or container")
		}
		return nil
	})
}

func (f *fakeEngine) NetworkDisconnect(ctx context.Context, id, containerID string, _ bool) error {
	return f.do(ctx, "NetworkDisconnect", func() error {
		for _, n := range f.networks {
			if n.ID == id || n.Name == id {
				delete(n.Containers, containerID)
				return nil
			}
		}
		return notFound("network: " + id)
	})
}

func (f *fakeEngine) NetworkInspect(ctx context.Context, id string, _ network.InspectOptions) (n network.Inspect, err error) {
	err = f.do(ctx, "NetworkInspect", func() error {
		if f.networks[id] == nil {
			return notFound("network: " + id)
		}
		n = *f.networks[id]
		return nil
	})
	return n, err
}

func (f *fakeEngine) NetworkList(ctx context.Context, o network.ListOptions) (out []network.Summary, err error) {
	err = f.do(ctx, "NetworkList", func() error {
		for _, n := range f.networks {
			if !o.Filters.Contains("name") || o.Filters.Match("name", n.Name) {
				out = append(out, *n)
			}
		}
		slices.SortFunc(out, func(a, b network.Summary) int { return strings.Compare(a.ID, b.ID) })
		return nil
	})
	return out, err
}

func (f *fakeEngine) NetworkRemove(ctx context.Context, id string) error {
	return f.do(ctx, "NetworkRemove", func() error {
		n := f.networks[id]
		if n == nil {
			return notFound("network: " + id)
		}
		if len(n.Containers) > 0 {
			return fmt.Errorf("network %s has active endpoints: %w", n.Name, errdefs.ErrPermissionDenied)
		}
		delete(f.networks, id)
		return nil
	})
}

func (f *fakeEngine) ImageInspect(ctx context.Context, ref string, _ ...client.ImageInspectOption) (i image.InspectResponse, err error) {
	err = f.do(ctx, "ImageInspect "+ref, func() error {
		for name, have := range f.images {
			if name == ref || have.ID == ref {
				i = have
				if len(i.RepoTags) == 0 && name == ref {
					i.RepoTags = []string{name}
				}
				return nil
			}
		}
		return notFound("image: " + ref)
	})
	return i, err
}

func (f *fakeEngine) ImageLoad(ctx context.Context, r io.Reader, _ ...client.ImageLoadOption) (image.LoadResponse, error) {
	err := f.do(ctx, "ImageLoad", func() error {
		id, err := io.ReadAll(r)
		f.images["tools"] = image.InspectResponse{ID: string(id)}
		return err
	})
	return image.LoadResponse{Body: http.NoBody}, err
}

// DistributionInspect knows what is in registry, by digest and credentials.
func (f *fakeEngine) DistributionInspect(ctx context.Context, ref, auth string) (registry.DistributionInspect, error) {
	return registry.DistributionInspect{}, f.do(ctx, "DistributionInspect "+ref, func() error {
		if f.admits == nil {
			return fmt.Errorf("dial: %w", errdefs.ErrUnavailable)
		}
		return f.admits(ref, auth)
	})
}

func (f *fakeEngine) ImagePull(ctx context.Context, ref string, o image.PullOptions) (io.ReadCloser, error) {
	err := f.do(ctx, "ImagePull "+ref, func() error {
		if f.admits != nil {
			if err := f.admits(ref, o.RegistryAuth); err != nil {
				return err
			}
		}
		i, ok := f.pull[ref]
		if !ok {
			return notFound("image: pull access denied for " + ref)
		}
		f.images[ref] = i
		return nil
	})
	if f.pullStalls {
		pr, pw := io.Pipe()
		context.AfterFunc(ctx, func() { pw.CloseWithError(ctx.Err()) })
		go pw.Write([]byte(`{"status":"pulling"}`))
		return pr, err
	}
	if f.says != nil {
		return io.NopCloser(f.says), err
	}
	return io.NopCloser(strings.NewReader(`{"status":"pulling"}`)), err
}

func (f *fakeEngine) VolumeCreate(ctx context.Context, o volume.CreateOptions) (v volume.Volume, err error) {
	err = f.do(ctx, "VolumeCreate", func() error {
		if _, ok := f.volumes[o.Name]; !ok {
			f.volumes[o.Name] = volume.Volume{Name: o.Name, Labels: o.Labels}
		}
		v = f.volumes[o.Name]
		return nil
	})
	return v, err
}

func (f *fakeEngine) VolumeInspect(ctx context.Context, name string) (v volume.Volume, err error) {
	err = f.do(ctx, "VolumeInspect", func() error {
		var ok bool
		if v, ok = f.volumes[name]; !ok {
			return notFound("volume: " + name)
		}
		return nil
	})
	return v, err
}

func (f *fakeEngine) VolumeList(ctx context.Context, o volume.ListOptions) (resp volume.ListResponse, err error) {
	err = f.do(ctx, "VolumeList", func() error {
		for _, v := range f.volumes {
			if o.Filters.MatchKVList("label", v.Labels) {
				resp.Volumes = append(resp.Volumes, &v)
			}
		}
		return nil
	})
	return resp, err
}

func (f *fakeEngine) VolumeRemove(ctx context.Context, name string, _ bool) error {
	return f.do(ctx, "VolumeRemove", func() error {
		delete(f.volumes, name)
		return nil
	})
}

// kind is the part of a name that does not change from run to run.
func kind(name string) string {
	name = strings.TrimPrefix(name, "/")
	for _, p := range []string{agentPrefix, proxyPrefix, networkPrefix, egressPrefix, probePrefix, holderPrefix} {
		if strings.HasPrefix(name, p) {
			return strings.Trim(strings.TrimPrefix(p, "wardyn"), "_")
		}
	}
	return name
}

func (f *fakeEngine) kindOf(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(id); c != nil {
		return kind(c.Name)
	}
	return kind(id)
}

func (f *fakeEngine) ImageRemove(ctx context.Context, ref string, _ image.RemoveOptions) ([]image.DeleteResponse, error) {
	return nil, f.do(ctx, "ImageRemove "+ref, func() error {
		if _, ok := f.images[ref]; !ok {
			return notFound("image: " + ref)
		}
		delete(f.images, ref)
		return nil
	})
}
