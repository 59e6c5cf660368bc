package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
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
