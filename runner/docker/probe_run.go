package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// probeTimeout bounds the probe of one runtime, and clearTimeout the removal
// of what it made.
const (
	probeTimeout = 60 * time.Second
	clearTimeout = 20 * time.Second
)

// subject is what a probe is about: does this runtime give this class.
type subject struct {
	class   types.ConfinementClass
	runtime string
}

// probeName names a probe's container and its network.
func (r *Runner) probeName(s subject) string {
	return probePrefix + r.opts.Dir.Instance() + "_" + string(s.class) + "_" + runtimeWord(s.runtime)
}

// runtimeWord is a runtime's name as a part of other names.
func runtimeWord(runtime string) string {
	return strings.NewReplacer("/", "_", ":", "_", "@", "_").Replace(runtime)
}

// probe really runs our probes under a runtime, on a network like a run's. It
// is over within its deadline and that of the removal; what cannot be removed
// by then is reported as left.
func (r *Runner) probe(ctx context.Context, s subject, host hostFacts) verdict {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := r.clearProbe(s); err != nil {
		return verdict{err: fmt.Errorf("what an earlier probe left cannot be removed; the runtime hangs: %w", err), left: true}
	}
	err := undisturbed(func() error { return r.runProbes(ctx, s, host, runNetworkOptions) }, func() error { return r.clearProbe(s) })
	if cerr := r.clearProbe(s); cerr != nil {
		r.opts.Log.Error("a probe's container or network cannot be removed", "runtime", s.runtime, "error", cerr)
		return verdict{err: errors.Join(err, fmt.Errorf("its probe container cannot be removed; the runtime hangs: %w", cerr)), left: true}
	}
	return verdict{err: err}
}

// clearProbe removes what a probe made, on a context of its own.
func (r *Runner) clearProbe(s subject) error {
	ctx, cancel := context.WithTimeout(context.Background(), clearTimeout)
	defer cancel()
	name := r.probeName(s)
	return errors.Join(r.removeOwned(ctx, name), r.removeNetworks(ctx, name), r.runs.Release(name), os.RemoveAll(r.earsDir(s)))
}

// runProbes asks two questions: does the runtime run programs right, and can
// anything but the run's own network be reached from inside. options is
// runNetworkOptions, except in tests that leave a guard out.
func (r *Runner) runProbes(ctx context.Context, s subject, host hostFacts,
	options func(netpool.Plan, hostFacts, map[string]string) network.CreateOptions) error {
	image, err := r.toolImage(ctx)
	if err != nil {
		return err
	}
	name := r.probeName(s)
	net, err := r.leaseNetwork(ctx, name, name, func(p netpool.Plan) network.CreateOptions {
		return options(p, host, r.reserved(name, componentNetwork))
	})
	if err != nil {
		return err
	}
	in := probeInput{Image: image, Runtime: s.runtime, Class: s.class, Host: host, Net: net, Labels: r.reserved(name, componentProbe)}
	in.Args = []string{"probe"}
	out, err := r.runProbe(ctx, name, in)
	if err := judgeClass(s, host, out, err); err != nil {
		return err
	}
	return r.probeEgress(ctx, name, in)
}

// probeEgress tries from inside to reach the host and what is behind it, and
// listens on the host for what gets there without an answer.
func (r *Runner) probeEgress(ctx context.Context, name string, in probeInput) error {
	own, err := netpool.HostAddresses()
	if err != nil {
		return err
	}
	ears, err := r.listen(subject{in.Class, in.Runtime})
	if err != nil {
		return err
	}
	defer ears.close()
	in.Sockets = ears.dir
	targets := egressTargets(in.Net, own, bridgeLinkLocal(bridgeName(in.Net.ID, nil)))
	targets = append(targets, ears.targets(in.Net.Plan.Subnet)...)
	in.Args = append([]string{"netprobe", "-timeout", netTimeout.String(), "-settle", netSettle.String()}, targets...)
	err = twiceIfSilent(func() error {
		out, err := r.runProbe(ctx, name, in)
		return judgeEgress(targets, out, err)
	})
	if err != nil {
		return err
	}
	return ears.judge()
}

// probeInput is all that a probe container's configuration follows from.
type probeInput struct {
	Image, Runtime string
	Class          types.ConfinementClass
	Host           hostFacts
	Net            runNetwork
	Args           []string
	// Sockets is a folder of the host to be found at probeSockets; "" is none.
	Sockets string
	Labels  map[string]string
}

// probeConfig confines a probe as an agent is confined.
func probeConfig(in probeInput) containerConfig {
	h := hardened(in.Runtime, in.Host)
	pids := hostPids(512, in.Class)
	h.Resources = container.Resources{Memory: 512 * mib, MemorySwap: 512 * mib, PidsLimit: &pids, Ulimits: ulimits(nil, in.Host)}
	h.ReadonlyRootfs = true
	h.LogConfig = rotated("1m", 1)
	if inFamily(in.Runtime, familyKrun) {
		giveKVM(h, in.Host)
	}
	if in.Sockets != "" {
		h.Mounts = append(h.Mounts, bind(in.Sockets, probeSockets, true, ""))
	}
	n := joinNetwork(h, &in.Net)
	return containerConfig{
		Config: &container.Config{
			Hostname: "probe", User: sidecarUser, Image: in.Image, WorkingDir: "/",
			Entrypoint: []string{"/wardyn-rec"}, Cmd: in.Args,
			StopSignal: defaultStopSignal, Labels: in.Labels, Healthcheck: noHealthcheck(),
		},
		HostConfig: h, Networking: n,
	}
}

// probeOutput is what a probe container left.
type probeOutput struct {
	code           int64
	stdout, stderr string
}

// runProbe runs one probe to its end and removes its container.
func (r *Runner) runProbe(ctx context.Context, name string, in probeInput) (probeOutput, error) {
	var out probeOutput
	id, err := r.createFromTools(ctx, name, probeConfig(in))
	if err != nil {
		return out, err
	}
	exited, failed := r.api.ContainerWait(ctx, id, container.WaitConditionNextExit)
	if err := r.api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		if ctx.Err() != nil {
			return out, errProbeLate
		}
		return out, wrap("start", err)
	}
	select {
	case w := <-exited:
		out.code = w.StatusCode
	case err := <-failed:
		if ctx.Err() != nil {
			return out, errProbeLate
		}
		return out, wrap("wait", err)
	}
	if err := r.stillThere(ctx, id, out.code); err != nil {
		return out, err
	}
	if out.stdout, out.stderr, err = r.readLogs(ctx, id); err != nil {
		return out, err
	}
	return out, r.removeOwned(ctx, name)
}

// readLogs reads a small log whole, both streams apart.
func (r *Runner) readLogs(ctx context.Context, id string) (stdout, stderr string, err error) {
	rc, err := r.api.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return "", "", wrap("read the probe's output", err)
	}
	defer rc.Close()
	var o, e strings.Builder
	if _, err := stdcopy.StdCopy(&o, &e, io.LimitReader(rc, mib)); err != nil {
		return "", "", fmt.Errorf("read the probe's output: %w", err)
	}
	return o.String(), e.String(), nil
}

const (
	// netTimeout is what a probe waits at most. A kernel takes three seconds to
	// find that nobody holds an address; on a busy host its word comes late.
	netTimeout = 15 * time.Second
	// netSettle is how long every other target may go on when that word is in:
	// with what it took, many times what an answer from this very host takes.
	netSettle = time.Second
)

// maxTargets bounds the host's own addresses that are tried.
const maxTargets = 64

// egressTargets are the places a sandbox must not reach: the bridge's address,
// which comes first, every other address of the host, the metadata service,
// the bridge's link-local address, and a resolver behind the engine's own.
func egressTargets(net runNetwork, own []netip.Addr, linkLocal netip.Addr) []string {
	gateway := net.Plan.Gateway.String()
	out := []string{
		"tcp:" + gateway + ":22", "udp:" + gateway + ":53",
		"tcp:169.254.169.254:80",
		"dns:127.0.0.11:" + probeDomain,
	}
	if linkLocal.IsValid() {
		out = append(out, "tcp6ll:["+linkLocal.String()+"]:22")
	}
	for _, a := range own {
		if a.Is4() && !a.IsLoopback() && len(out) < maxTargets {
			out = append(out, "tcp:"+a.String()+":22")
		}
	}
	return out
}

// probeDomain exists nowhere: a resolver that is reached says so.
const probeDomain = "egress-probe.wardyn.invalid"
