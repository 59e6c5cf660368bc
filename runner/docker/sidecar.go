package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

const (
	// sidecarUser has no name anywhere and no right to anything.
	sidecarUser = "65532:65532"
	sidecarUID  = 65532
	// readyTimeout bounds the time from a sidecar's start to its being ready.
	readyTimeout = 30 * time.Second
	// sidecarGrace lets a sidecar hand its last records over.
	sidecarGrace = 3 * time.Second
	// tailLines of a sidecar's log go into the error when it fails to start.
	tailLines = "20"
)

// A sidecar's own limits; they are not the task's.
const (
	sidecarMemory = 256 * mib
	sidecarPids   = int64(128)
	sidecarCPU    = int64(1_000_000_000) // one core
)

// sidecarInput is all that a sidecar's configuration follows from.
type sidecarInput struct {
	Run     uuid.UUID
	ImageID string
	Control string // host folder of the control socket
	Net     runNetwork
	Host    hostFacts
	Labels  map[string]string
	Caller  map[string]string // the spec's labels
}

// sidecarConfig is the sidecar's container. Neither its environment, nor its
// command line, nor its labels hold anything secret: it fetches its
// configuration over the control socket.
func sidecarConfig(in sidecarInput) containerConfig {
	pids := sidecarPids
	h := hardened(sidecarRuntime, in.Host)
	h.ReadonlyRootfs = true
	h.LogConfig = rotated("10m", 3)
	h.Tmpfs = map[string]string{tmpTarget: "rw,nosuid,nodev,noexec,size=64m"}
	h.Mounts = append(h.Mounts, bind(in.Control, ControlMount, true, ""))
	h.Resources = container.Resources{
		Memory: sidecarMemory, MemorySwap: sidecarMemory, PidsLimit: &pids, NanoCPUs: sidecarCPU,
		Ulimits: ulimits(nil, in.Host),
	}
	// It has two legs and is no router.
	h.Sysctls["net.ipv4.ip_forward"] = "0"
	// Its ports are below 1024 and it has no capability.
	h.Sysctls["net.ipv4.ip_unprivileged_port_start"] = "0"
	h.NetworkMode = container.NetworkMode(in.Net.ID)
	return containerConfig{
		Config: &container.Config{
			Hostname:    proxyHost,
			User:        sidecarUser,
			Image:       in.ImageID,
			Entrypoint:  []string{"/wardyn-proxy"},
			Cmd:         []string{"-control", egress.LocalControlURL},
			WorkingDir:  "/",
			StopSignal:  defaultStopSignal,
			Labels:      mergeLabels(nil, in.Caller, in.Labels),
			Healthcheck: noHealthcheck(),
		},
		HostConfig: h,
		Networking: sidecarEndpoint(in.Net, in.Host),
	}
}

// sidecarEndpoint is the sidecar's place on the run's network. Its hardware
// address follows from its own, as older engines have it by themselves: gVisor
// goes on sending to the one it knows, also when the sidecar was replaced.
func sidecarEndpoint(n runNetwork, host hostFacts) *network.NetworkingConfig {
	c := endpointOn(n.ID, n.Plan.Sidecar.String(), proxyHost)
	if a := n.Plan.Sidecar.As4(); host.randomMACs() {
		c.EndpointsConfig[n.ID].MacAddress = net.HardwareAddr{2, 0x42, a[0], a[1], a[2], a[3]}.String()
	}
	return c
}

// startSidecar gives a created sidecar its second leg and starts it. One joins
// or leaves the egress network at a time, and nothing joins the run's meanwhile:
// of two that do so at once engines may count one wrong, and such a network
// cannot be removed until the engine has been restarted.
func (r *Runner) startSidecar(ctx context.Context, id, egressID string, host hostFacts) error {
	leg := &network.EndpointSettings{}
	if host.isolatedGateway() {
		// This leg, not the run's, has the way out.
		leg.GwPriority = 1
	}
	c, cancel := call(ctx)
	defer cancel()
	if err := r.api.NetworkConnect(c, egressID, id, leg); err != nil {
		return wrap("connect the sidecar to the egress network", err)
	}
	return r.alone(ctx, "start the sidecar", func(ctx context.Context) error {
		return r.api.ContainerStart(ctx, id, container.StartOptions{})
	})
}

// leaveEgress takes a sidecar that is about to be stopped off the egress
// network. Left to itself the engine would do so at its end, together with
// those of other runs.
func (r *Runner) leaveEgress(ctx context.Context, id string) error {
	return goneIsNil(r.alone(ctx, "take the sidecar off the egress network", func(ctx context.Context) error {
		err := r.api.NetworkDisconnect(ctx, r.EgressNetworkName(), id, true)
		if err != nil && strings.Contains(err.Error(), "is not connected") {
			return nil
		}
		return err
	}))
}

// alone does what changes who is on the egress network.
func (r *Runner) alone(ctx context.Context, what string, change func(context.Context) error) error {
	select {
	case r.joins <- struct{}{}:
		defer func() { <-r.joins }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	c, cancel := call(ctx)
	defer cancel()
	return wrap(what, change(c))
}

// waitSidecar returns when the sidecar has its configuration and listens. A
// sidecar that ends, or takes too long, is an error that carries its exit code
// and its last words.
func (r *Runner) waitSidecar(ctx context.Context, id string, ready <-chan struct{}) error {
	wctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	exited, failed := r.api.ContainerWait(wctx, id, container.WaitConditionNotRunning)
	select {
	case <-ready:
		return nil
	case w := <-exited:
		return fmt.Errorf("the sidecar ended with exit code %d before it was ready%s", w.StatusCode, r.lastWords(ctx, id))
	case err := <-failed:
		if wctx.Err() == nil {
			return wrap("watch the sidecar", err)
		}
	case <-wctx.Done():
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the sidecar: %w", ctx.Err())
	}
	return fmt.Errorf("%w: the sidecar did not fetch its configuration within %v%s", runner.ErrUnavailable, readyTimeout, r.lastWords(ctx, id))
}

// lastWords is the end of a container's log, as the end of an error text.
func (r *Runner) lastWords(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	text, err := r.logTail(ctx, id, tailLines)
	if err != nil {
		return fmt.Sprintf(" (its log could not be read: %v)", err)
	}
	if text == "" {
		return "; it printed nothing"
	}
	return "; its last words: " + text
}

// logTail reads the last lines of both streams of a container, bounded.
func (r *Runner) logTail(ctx context.Context, id, lines string) (string, error) {
	rc, err := r.api.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: lines})
	if err != nil {
		return "", err
	}
	defer rc.Close()
	var b strings.Builder
	_, err = stdcopy.StdCopy(&b, &b, io.LimitReader(rc, 64<<10))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	return strings.TrimSpace(b.String()), nil
}
