package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// R9, R13, K42: the order of calls. Everything is known before anything is
// made; the sidecar starts with both its legs; the agent is created beside it
// and is not started here.
func TestR9CallOrder(t *testing.T) {
	w := newFakeWorld(t)
	w.engine.calls = nil
	spec := fakeSpec()
	sb, err := w.CreateSandbox(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if want := (runner.Sandbox{Ref: AgentName(spec.RunID), Driver: "docker", EnforcedClass: types.CC1}); sb != want {
		t.Errorf("got %+v, want %+v", sb, want)
	}
	want := []string{
		"ImageInspect sha256:tools", "ImageLoad", "ImageInspect sha256:tools", "ImageInspect agent:1",
		// leftovers of the same run id
		"ContainerInspect agent", "ContainerInspect proxy", "NetworkList",
		"NetworkList", "NetworkCreate net",
		"NetworkList", "NetworkList", "NetworkList", "NetworkCreate egress", "NetworkList", "NetworkInspect",
		"ContainerCreate proxy", "NetworkConnect", "ContainerStart proxy",
	}
	slices.Sort(w.engine.calls[4:6]) // these two are made side by side
	agent := slices.Index(w.engine.calls, "ContainerCreate agent")
	if agent < slices.Index(w.engine.calls, "NetworkCreate net") || slices.Contains(w.engine.calls, "ContainerStart agent") {
		t.Errorf("the agent is created too early, or started: %q", w.engine.calls)
	}
	if calls := slices.Delete(w.engine.calls, agent, agent+1); !slices.Equal(calls, want) {
		t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
	}
	cfg, err := egress.ParseConfig(w.control.config)
	if err != nil || cfg.ControlPlaneURL != egress.LocalControlURL || len(cfg.RunToken) != 64 {
		t.Errorf("proxy configuration %+v, %v", cfg, err)
	}
	if w.control.listen != netip.MustParseAddr("10.213.0.2") {
		t.Errorf("sidecar listens on %v", w.control.listen)
	}
	rec, err := w.dir.LoadRecord(spec.RunID)
	if err != nil || rec.Subnet != "10.213.0.0/29" || rec.NetworkID == "" || rec.Runtime != "runc" || rec.Class != "CC1" {
		t.Errorf("record %+v, %v", rec, err)
	}
}

// K22, S55, S56: neither token nor key is in anything the engine is told.
func TestS56NoSecretReachesTheEngine(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	spec.ProxyConfig = runner.ProxyConfig{RunToken: "planted-token", MITMCAKeyPEM: "planted-key", UpstreamProxyURL: "http://u:planted-password@proxy"}
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for _, c := range w.engine.containers {
		if s := fmt.Sprintf("%+v %+v %+v", *c.Config, *c.HostConfig, c.Config.Labels); strings.Contains(s, "planted") {
			t.Errorf("%s: %s", c.Name, s)
		}
	}
	b, err := os.ReadFile(w.dir.Path("runs", spec.RunID.String()+".json"))
	if err != nil || strings.Contains(string(b), "planted") {
		t.Errorf("record: %s, %v", b, err)
	}
}

// C22, R27, B11: whichever call fails, before or after it took effect, nothing
// is left; nor when the caller gives up during it.
func TestC22NothingIsLeft(t *testing.T) {
	for _, kindOfSpec := range []string{"task", "launched", "pooled", "idle", "no network"} {
		total := 0
		for _, how := range []string{"fails", "fails having worked", "cancelled"} {
			for n := 1; total == 0 || n <= total; n++ {
				w := newFakeWorld(t)
				spec := fakeSpec()
				switch kindOfSpec {
				case "pooled":
					if err := w.makeSlot(t.Context()); err != nil {
						t.Fatal(err)
					}
				case "idle":
					spec.Task = nil
				case "no network":
					spec.Task.NoNetwork = true
				}
				ctx, cancel := context.WithCancel(t.Context())
				w.engine.calls = nil
				hook := func(i int, _ string) error {
					switch {
					case i != n:
						return nil
					case how == "cancelled":
						cancel()
						return nil
					}
					return fmt.Errorf("made to fail: %w", errdefs.ErrUnavailable)
				}
				if how == "fails having worked" {
					w.engine.after = hook
				} else {
					w.engine.before = hook
				}
				create := w.CreateSandbox
				if kindOfSpec == "launched" || kindOfSpec == "pooled" {
					create = w.Launch
				}
				_, err := create(ctx, spec)
				cancel()
				if err == nil {
					// A failure that a later call made good. Past the end: all tried.
					if n > len(w.engine.calls) {
						total = n - 1
					}
					w.engine.before, w.engine.after = nil, nil
					if err := w.KillSandbox(t.Context(), AgentName(spec.RunID)); err != nil {
						t.Errorf("%s, call %d %s: kill: %v", kindOfSpec, n, how, err)
					}
				} else if how == "fails" && !errors.Is(err, runner.ErrUnavailable) {
					t.Errorf("%s, call %d: %v is not ErrUnavailable", kindOfSpec, n, err)
				}
				w.engine.before, w.engine.after = nil, nil
				if err := w.RemovePool(t.Context()); err != nil {
					t.Errorf("%s, call %d %s: %v", kindOfSpec, n, how, err)
				}
				w.nothingLeft(t, spec.RunID)
				if t.Failed() {
					t.Fatalf("%s: call %d (%s) %s: %v", kindOfSpec, n, at(w.engine.calls, n), how, err)
				}
			}
		}
	}
}

func at(calls []string, n int) string {
	if n > len(calls) {
		return "past the end"
	}
	return calls[n-1]
}

// R24, B29: a limit that the engine drops is fatal before anything runs.
func TestR24DroppedLimitNeverStarts(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	w.engine.warnings, w.engine.warnedKind = []string{"Your kernel does not support swap limit capabilities. Limitation DISCARDED."}, "agent"
	_, err := w.Launch(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "drops a limit") {
		t.Fatalf("err = %v", err)
	}
	if slices.Contains(w.engine.calls, "ContainerStart agent") {
		t.Error("the agent was started")
	}
	w.nothingLeft(t, spec.RunID)
}

// R24: a warning of another kind is no reason to fail.
func TestR24OtherWarningsPass(t *testing.T) {
	w := newFakeWorld(t)
	w.engine.warnings = []string{"something else"}
	if _, err := w.CreateSandbox(t.Context(), fakeSpec()); err != nil {
		t.Fatal(err)
	}
}

// R14, B21: a sidecar that dies at its start says how and why.
func TestR14SidecarDies(t *testing.T) {
	w := newFakeWorld(t)
	w.control.never = true
	w.engine.exits["proxy"], w.engine.logs["proxy"] = 7, "cannot bind\n"
	spec := fakeSpec()
	_, err := w.CreateSandbox(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), "cannot bind") {
		t.Errorf("err = %v", err)
	}
	w.nothingLeft(t, spec.RunID)
}

// Operators section 0: an image that vanishes between looking and creating is
// fetched again, the sidecar's loaded again.
func TestImageVanishesBeforeCreate(t *testing.T) {
	w := newFakeWorld(t)
	img := w.engine.images["agent:1"]
	w.engine.pull = map[string]image.InspectResponse{"agent:1": img}
	var lost []string
	w.engine.before = func(_ int, call string) error {
		w.engine.mu.Lock()
		defer w.engine.mu.Unlock()
		if strings.HasPrefix(call, "ContainerCreate") && !slices.Contains(lost, call) {
			lost = append(lost, call)
			delete(w.engine.images, map[string]string{"ContainerCreate agent": "agent:1", "ContainerCreate proxy": "tools"}[call])
		}
		return nil
	}
	if _, err := w.CreateSandbox(t.Context(), fakeSpec()); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(w.engine.calls, "ImagePull agent:1") {
		t.Error("not pulled")
	}
}

// R8, S37: what an earlier attempt of the same run left is removed, whatever
// its state; R7: also two networks of one name.
func TestR8LeftoversAreRemoved(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	twin := *w.engine.networks[networkIDs(w.engine, networkPrefix)[0]]
	twin.ID = "n-twin"
	w.engine.networks[twin.ID] = &twin
	for _, name := range []string{AgentName(spec.RunID), ProxyName(spec.RunID)} {
		w.engine.find(name).State.Paused, w.engine.find(name).State.Running = true, true
	}
	w.engine.calls = nil
	if _, err := w.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if ids := networkIDs(w.engine, networkPrefix); len(ids) != 1 {
		t.Errorf("networks: %v", ids)
	}
	for _, call := range []string{"ContainerUnpause agent", "ContainerUnpause proxy"} { // F24
		if !slices.Contains(w.engine.calls, call) {
			t.Errorf("no %s in %q", call, w.engine.calls)
		}
	}
}

func networkIDs(f *fakeEngine, prefix string) (out []string) {
	for id, n := range f.networks {
		if strings.HasPrefix(n.Name, prefix) {
			out = append(out, id)
		}
	}
	return out
}

// K3: what merely bears our name is neither adopted nor removed.
func TestK3ForeignObjectsStay(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	labels := w.reservedOf(ProxyName(spec.RunID), componentAgent, spec.RunID, types.CC1) // the proof is another name's
	w.engine.containers["x"] = &container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: "x", Name: "/" + AgentName(spec.RunID), State: &container.State{Running: true}},
		Config:            &container.Config{Labels: labels},
	}
	w.engine.networks["y"] = &network.Inspect{ID: "y", Name: NetworkName(spec.RunID), Labels: labels,
		IPAM: network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.99.0.0/24"}}}}
	for _, f := range []func() error{
		func() error { _, err := w.CreateSandbox(t.Context(), spec); return err },
		func() error { return w.KillSandbox(t.Context(), AgentName(spec.RunID)) },
		func() error { return w.StopSandbox(t.Context(), AgentName(spec.RunID)) },
	} {
		if err := f(); !errors.Is(err, runner.ErrDenied) {
			t.Errorf("err = %v, want ErrDenied", err)
		}
	}
	if w.engine.containers["x"] == nil || !w.engine.containers["x"].State.Running || w.engine.networks["y"] == nil {
		t.Error("a stranger was stopped or removed")
	}
	if l, err := w.ListSandboxes(t.Context()); err != nil || len(l) > 0 {
		t.Errorf("listed: %v, %v", l, err)
	}
}

// B7: a kill while a sandbox is being created ends the creation.
func TestB7KillDuringCreate(t *testing.T) {
	w := newFakeWorld(t)
	w.control.never = true
	spec := fakeSpec()
	made := make(chan error)
	reached := make(chan struct{})
	w.engine.after = func(_ int, call string) error {
		if call == "ContainerCreate agent" {
			close(reached)
		}
		return nil
	}
	go func() { _, err := w.CreateSandbox(t.Context(), spec); made <- err }()
	<-reached
	if err := w.KillSandbox(t.Context(), AgentName(spec.RunID)); err != nil {
		t.Error(err)
	}
	if err := <-made; !errors.Is(err, context.Canceled) {
		t.Errorf("CreateSandbox: %v", err)
	}
	w.nothingLeft(t, spec.RunID)
}

// Two creates of one run at a time cannot both be right.
func TestCreateTwiceAtOnce(t *testing.T) {
	w := newFakeWorld(t)
	w.control.never = true
	spec := fakeSpec()
	ctx, cancel := context.WithCancel(t.Context())
	reached, made := make(chan struct{}), make(chan error)
	w.engine.after = func(_ int, call string) error {
		if call == "ContainerCreate agent" {
			close(reached)
		}
		return nil
	}
	go func() { _, err := w.CreateSandbox(ctx, spec); made <- err }()
	<-reached
	if _, err := w.CreateSandbox(t.Context(), spec); !errors.Is(err, runner.ErrExists) {
		t.Errorf("second: %v", err)
	}
	cancel()
	if err := <-made; err == nil {
		t.Error("first: no error")
	}
}

// R60, T4: a class without a runtime is an error before anything is made.
func TestR60NoSilentDowngrade(t *testing.T) {
	w := newFakeWorld(t)
	spec := fakeSpec()
	spec.ConfinementClass = types.CC3
	_, err := w.CreateSandbox(t.Context(), spec)
	if !errors.Is(err, runner.ErrClassUnavailable) {
		t.Errorf("err = %v", err)
	}
	w.nothingLeft(t, spec.RunID)
}

// Invariant 2: a class whose probe failed is not given, whatever is registered.
func TestInvariant2UnprovedClassIsRefused(t *testing.T) {
	w := newFakeWorld(t)
	w.findings.known[subject{types.CC2, "runsc"}].err = errors.New("planted verdict")
	spec := fakeSpec()
	spec.ConfinementClass = types.CC2
	_, err := w.CreateSandbox(t.Context(), spec)
	if !errors.Is(err, runner.ErrClassUnavailable) || !strings.Contains(err.Error(), "planted verdict") {
		t.Errorf("err = %v", err)
	}
	w.nothingLeft(t, spec.RunID)
}

// Invariant 7: all faults at once, and nothing made.
func TestAllFaultsAtOnce(t *testing.T) {
	w := newFakeWorld(t)
	w.opts.Max = runner.Resources{CPUMillis: 1000, MemoryMiB: 512, PidsLimit: 100, DiskMiB: 10}
	spec := fakeSpec()
	spec.Env = map[string]string{"WARDYN_RUN_TOKEN": "x", "A=B": ""}
	spec.Labels = map[string]string{"com.hashicorp.nomad.alloc_id": "x"}
	spec.Resources = runner.Resources{CPUMillis: 1001, MemoryMiB: 513, PidsLimit: 101, DiskMiB: 11}
	spec.Mounts = []runner.Mount{{Source: "/etc", Target: "/work"}}
	spec.Task.CapAdd, spec.Task.WorkDir = []string{"CAP_NET_ADMIN"}, "relative"
	spec.Task.Sysctls = map[string]string{"net.ipv6.conf.all.disable_ipv6": "0"}
	w.engine.calls = nil
	_, err := w.CreateSandbox(t.Context(), spec)
	if !errors.Is(err, runner.ErrInvalid) {
		t.Fatalf("err = %v", err)
	}
	for _, want := range []string{"WARDYN_RUN_TOKEN", `"A=B"`, "com.hashicorp.nomad.alloc_id", "1001 millis", "maximum of 1000", "cpu_cap",
		"513 MiB", "max_memory", "101 processes", "max_pids", "11 MiB", "max_disk", "/etc", "CAP_NET_ADMIN", `"relative"`, "net.ipv6"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	for _, c := range w.engine.calls {
		if strings.Contains(c, "Create") || strings.Contains(c, "Pull") {
			t.Errorf("%s was called", c)
		}
	}
}

// K30, K5: what an image may not be.
func TestK30RefusedImages(t *testing.T) {
	for name, tc := range map[string]struct {
		img  image.InspectResponse
		want string
	}{
		"nomad label": {image.InspectResponse{ID: "i", Architecture: "amd64", Os: "linux", Config: &dockerspec.DockerOCIImageConfig{
			ImageConfig: imageConfig(map[string]string{"com.hashicorp.nomad.alloc_id": "x"})}}, "com.hashicorp.nomad"},
		"architecture": {image.InspectResponse{ID: "i", Architecture: "s390x", Os: "linux", Config: &dockerspec.DockerOCIImageConfig{}}, "linux/s390x"},
		"a NUL byte": {image.InspectResponse{ID: "i", Architecture: "amd64", Os: "linux", Config: &dockerspec.DockerOCIImageConfig{
			ImageConfig: ocispec.ImageConfig{Entrypoint: []string{"/bin/sh\x00"}}}}, "NUL byte"},
		"system": {image.InspectResponse{ID: "i", Architecture: "amd64", Os: "windows", Config: &dockerspec.DockerOCIImageConfig{}}, "windows/amd64"},
	} {
		w := newFakeWorld(t)
		w.engine.images["agent:1"] = tc.img
		spec := fakeSpec()
		_, err := w.CreateSandbox(t.Context(), spec)
		if !errors.Is(err, runner.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		w.nothingLeft(t, spec.RunID)
	}
	w := newFakeWorld(t)
	spec := fakeSpec()
	spec.Task.Argv = nil
	if _, err := w.CreateSandbox(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "idle = true") {
		t.Errorf("no command: %v", err)
	}
}

func imageConfig(labels map[string]string) (c ocispec.ImageConfig) {
	c.Labels = labels
	return c
}
