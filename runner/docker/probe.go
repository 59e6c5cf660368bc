package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

const (
	// askTimeout bounds asking an engine whether it is there.
	askTimeout = 5 * time.Second
	// probeWait is how long a health check waits for probes under way. A
	// runtime that hangs must not hold it up.
	probeWait = 8 * time.Second
	// requireWait is how long a creation waits for them.
	requireWait = 90 * time.Second
)

// Probe examines engine and runtimes. Findings are remembered, and looked for
// again when they have aged, when the engine was restarted and when its
// runtimes have changed. It answers within seconds even when a runtime hangs.
func (r *Runner) Probe(ctx context.Context) runner.Findings {
	r.startImageGC() // images of an earlier process wait for it, too
	f := r.examine(ctx)
	r.findings.keepLast(f)
	r.keepFindings(f, time.Now())
	return f
}

// Capabilities is what the last probe found; the first call probes.
func (r *Runner) Capabilities(ctx context.Context) (runner.Capabilities, error) {
	f, ok := r.findings.last()
	if !ok {
		f = r.Probe(ctx)
	}
	if f.EngineVersion == "" {
		return f.Capabilities, fmt.Errorf("%s: %w", f.Reason, runner.ErrUnavailable)
	}
	return f.Capabilities, nil
}

func (r *Runner) examine(ctx context.Context) runner.Findings {
	r.forgetFacts()
	actx, cancel := context.WithTimeout(ctx, askTimeout)
	host, err := r.facts(actx)
	cancel()
	if err != nil {
		r.findings.engineGone()
		return unhealthy("", fmt.Sprintf("the Docker engine at %s does not answer; start it, or set option endpoint to its socket (%v)", r.opts.Endpoint, err))
	}
	if host.UserNamespaces {
		return unhealthy(host.Version, "the Docker engine maps users to others (userns-remap or rootless), which this driver does not support; switch it off")
	}
	key := r.engineKey(host)
	wctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	var all []classState
	for _, class := range types.Classes() {
		rt, err := resolveRuntime(class, host, r.opts.Runtimes[class])
		if err == nil {
			r.refresh(subject{class, rt}, key, host)
		}
		all = append(all, classState{subject: subject{class, rt}, err: err})
	}
	for i, s := range all {
		if s.err == nil {
			all[i].err = r.findings.await(wctx, s.subject, key)
			all[i].checked = r.findings.checked(s.subject)
		}
	}
	return findingsOf(host, all, bridgeFilterOn())
}

// requireClass refuses a class that no probe has shown to work here.
func (r *Runner) requireClass(ctx context.Context, s subject, host hostFacts) error {
	key := r.engineKey(host)
	r.refresh(s, key, host)
	ctx, cancel := context.WithTimeout(ctx, requireWait)
	defer cancel()
	if err := r.findings.await(ctx, s, key); err != nil {
		return fmt.Errorf("%w: %s (runtime %s): %w", runner.ErrClassUnavailable, s.class, s.runtime, err)
	}
	return nil
}

// refresh has the subject probed when nothing is known of it that still stands.
func (r *Runner) refresh(s subject, key string, host hostFacts) {
	r.recall(s, key, host)
	r.findings.refresh(s, key,
		func(ctx context.Context) verdict {
			v := r.probe(ctx, s, host)
			r.share(s, host, v)
			return v
		},
		func() error { return r.clearProbe(s) })
}

// classState is what is known of a class; err says why it does not work.
type classState struct {
	subject // without a runtime when none is registered
	err     error
	checked time.Time
}

// findingsOf puts what was found into the contract's words. bridgeFilter says
// whether the firewall sees traffic within a bridge: without it nothing but
// their own address guards keep sidecars apart.
func findingsOf(host hostFacts, states []classState, bridgeFilter bool) runner.Findings {
	f := runner.Findings{EngineVersion: host.Version}
	f.Capabilities = runner.Capabilities{Driver: "docker", Resolved: make(map[types.ConfinementClass]string)}
	var reasons []string
	for _, s := range states {
		cf := runner.ClassFinding{Class: string(s.class), Runtime: s.runtime, Works: s.err == nil, Checked: s.checked}
		if s.err != nil {
			cf.Reason = s.err.Error()
			f.Pending = f.Pending || errors.Is(s.err, errProbing) || errors.Is(s.err, errDisturbed)
			reasons = append(reasons, string(s.class)+": "+cf.Reason)
		} else {
			f.Healthy = true
			f.Capabilities.ConfinementClasses = append(f.Capabilities.ConfinementClasses, s.class)
			f.Capabilities.Resolved[s.class] = "oci/" + s.runtime
		}
		f.Classes = append(f.Classes, cf)
	}
	// A class works only if its probe found no way past the sidecar.
	f.Capabilities.StructuralEgress = f.Healthy && bridgeFilter
	switch {
	case !f.Healthy:
		f.Reason = "no confinement class works on this host: " + strings.Join(reasons, "; ")
	case !bridgeFilter:
		f.Reason = "sandboxes can be created; sidecars are not kept apart by the firewall: set sysctl net.bridge.bridge-nf-call-iptables to 1"
	default:
		f.Reason = "sandboxes can be created"
	}
	return f
}

func unhealthy(version, reason string) runner.Findings {
	return runner.Findings{Reason: reason, EngineVersion: version, Capabilities: runner.Capabilities{Driver: "docker"}}
}

// bridgeFilterOn reads whether the firewall sees traffic within a bridge.
func bridgeFilterOn() bool {
	b, err := os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables")
	return err == nil && strings.TrimSpace(string(b)) == "1"
}
