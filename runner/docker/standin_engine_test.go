package docker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// standinRuntime writes a runtime that is a shell script. What it does not
// handle itself it leaves to the program of that name.
func standinRuntime(t *testing.T, dir, name, script string) testenv.Runtime {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return testenv.Runtime{Path: path}
}

// gvisorBinary is where the machine's engine has its runsc.
func gvisorBinary(t *testing.T) string {
	t.Helper()
	if len(testenv.Runtimes(t)) < 2 {
		return ""
	}
	info, err := testenv.Client(t, testenv.Engine(t)).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Runtimes["runsc"].Path
}

// verdictsOn is what probes of the subjects find out, two at a time.
func (w *world) verdictsOn(t *testing.T, subjects []subject) map[subject]error {
	t.Helper()
	host := mustFacts(t, w.Runner)
	var (
		all  errgroup.Group
		mu   sync.Mutex // guards errs
		errs = map[subject]error{}
	)
	all.SetLimit(2)
	for _, s := range subjects {
		all.Go(func() error {
			v := w.probe(t.Context(), s, host)
			if v.left {
				t.Errorf("left behind: %v", v.err)
			}
			mu.Lock()
			defer mu.Unlock()
			errs[s] = v.err
			return nil
		})
	}
	_ = all.Wait() // none returns an error
	return errs
}

// Invariant 2, R63, R64: a runtime that is registered and does not give its
// class is not offered, and the reason says what is wrong with it.
func TestR63BrokenRuntimesAreNotOffered(t *testing.T) {
	gvisor := gvisorBinary(t)
	dir := t.TempDir()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	runtimes := map[string]testenv.Runtime{
		"runsc-missing": {Path: filepath.Join(dir, "no-such-runtime")},
		"runsc-is-runc": {Path: runc},
		"kata-is-runc":  {Path: runc},
		"runsc-renamed": standinRuntime(t, dir, "renamed", `exec setarch x86_64 --uname-2.6 `+runc+` "$@"`),
		"runsc-nonet": standinRuntime(t, dir, "nonet", `case " $* " in *" create "*)
			log=$(echo "$*" | sed -n 's/.*--log \([^ ]*\).*/\1/p')
			echo '{"level":"error","msg":"cannot run with network enabled in root network namespace"}' >$log; exit 1;; esac; exec `+runc+` "$@"`),
	}
	want := map[string]string{
		"runsc-missing": "no-such-runtime",
		"runsc-is-runc": "not gVisor", "runsc-renamed": "not gVisor",
		"kata-is-runc": "not a virtual machine",
		"runsc-nonet":  "--network=host",
	}
	if gvisor != "" {
		runtimes["runsc-sockets"] = testenv.Runtime{Path: gvisor, Args: []string{"--overlay2=none", "--host-uds=open"}}
		runtimes["runsc-good"] = testenv.Runtime{Path: gvisor, Args: []string{"--overlay2=none"}}
		runtimes["kata-is-runsc"] = runtimes["runsc-good"]
		want["runsc-sockets"], want["runsc-good"], want["kata-is-runsc"] = "unix sockets of the host", "", "not a virtual machine"
	}
	testenv.StartEngine(t, testenv.EngineOptions{Runtimes: runtimes})
	w := newWorld(t)
	var subjects []subject
	for name := range want {
		class := types.CC2
		if strings.HasPrefix(name, "kata") {
			class = types.CC3
		}
		subjects = append(subjects, subject{class, name})
	}
	for s, err := range w.verdictsOn(t, subjects) {
		reason := want[s.runtime]
		if (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v; want %q", s.runtime, err, reason)
		}
	}
}

// R63, R64, D-12: a runtime that hangs in create is found out within its time,
// and holds nobody else up.
func TestR63HangingRuntime(t *testing.T) {
	gvisor := gvisorBinary(t) // of the machine's own engine
	dir := t.TempDir()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	stop := filepath.Join(dir, "stop")
	e := testenv.StartEngine(t, testenv.EngineOptions{Runtimes: map[string]testenv.Runtime{
		"runsc": standinRuntime(t, dir, "hangs", `case " $* " in *" create "*)
			while [ ! -e `+stop+` ]; do sleep 0.2; done; exit 1;; esac; exec `+runc+` "$@"`),
	}})
	w := newWorld(t)
	defer os.WriteFile(stop, nil, 0o644) // the world's end waits for the probe's
	var f runner.Findings
	testenv.Eventually(t, "CC1 is offered", func() bool { f = w.Probe(t.Context()); return f.Healthy })
	// The other class's probe goes on meanwhile, or on a busy machine has taken its whole time.
	if c := f.Classes[1]; c.Works || !strings.Contains(c.Reason, "still running") && !strings.Contains(c.Reason, "hangs") {
		t.Errorf("while it hangs: %+v", f)
	}
	host := mustFacts(t, w.Runner)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err = w.runProbes(ctx, subject{types.CC2, "runsc"}, host, func(p netpool.Plan, h hostFacts, l map[string]string) network.CreateOptions {
		return runNetworkOptions(p, h, l)
	})
	if err == nil {
		t.Error("a runtime that hangs is taken for gVisor")
	}
	// Repaired, and the engine told of it: known void at once, found out anew.
	if err := os.WriteFile(stop, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	if gvisor == "" {
		return
	}
	e.Reload(t, map[string]testenv.Runtime{"runsc": {Path: gvisor, Args: []string{"--overlay2=none"}}})
	testenv.Eventually(t, "gVisor after the reload", func() bool {
		f := w.Probe(t.Context())
		return len(f.Classes) > 1 && f.Classes[1].Works && !f.Classes[1].Checked.IsZero()
	})
}

// R59, C27: the wiring of CC3, over a stand-in that says it has a kernel of its
// own: kata before krun, a sandbox under it, the class on its label.
func TestR59StandinMicroVM(t *testing.T) {
	fake := testenv.Runtime{Path: testenv.Build(t, "./runner/docker/testdata/fakevm")}
	testenv.StartEngine(t, testenv.EngineOptions{Runtimes: map[string]testenv.Runtime{"kata-standin": fake, "krun": fake}})
	w := newWorld(t)
	f := w.probed(t)
	if c := f.Classes[2]; !c.Works || c.Runtime != "kata-standin" || f.Capabilities.Resolved[types.CC3] != "oci/kata-standin" {
		t.Fatalf("%+v", f)
	}
	spec := specFor(t, "runc")
	spec.ConfinementClass = types.CC3
	ref := w.startedSandbox(t, spec)
	c, err := w.cl.ContainerInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if c.HostConfig.Runtime != "kata-standin" || c.Config.Labels[labelClass] != "CC3" {
		t.Errorf("runtime %q, class %q", c.HostConfig.Runtime, c.Config.Labels[labelClass])
	}
	p, err := w.cl.ContainerInspect(t.Context(), ProxyName(spec.RunID))
	if err != nil || p.HostConfig.Runtime != sidecarRuntime {
		t.Errorf("the sidecar's runtime: %v", err)
	}
}

// S13: a host that hears broadcasts of a sandbox is not said to enclose it.
// With the guards the same probe passes: TestR63ProbeRunsEachClass.
func TestS13ProbeHearsBroadcasts(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		s := subject{classFor(rt), rt}
		name := w.probeName(s)
		defer func() {
			if err := w.clearProbe(s); err != nil {
				t.Error(err)
			}
		}()
		host := mustFacts(t, w.Runner)
		image, err := w.toolImage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, err := w.leaseNetwork(t.Context(), name, name, func(p netpool.Plan) network.CreateOptions {
			return runNetworkOptions(p, host, w.reserved(name, componentNetwork))
		})
		if err != nil {
			t.Fatal(err)
		}
		in := probeInput{Image: image, Runtime: rt, Class: s.class, Host: host, Net: n, Labels: w.reserved(name, componentProbe)}
		if host.isolatedGateway() {
			return // this engine has rules of its own against it, which stay
		}
		openBridge(t, n.ID)
		if err := w.probeEgress(t.Context(), name, in); err == nil || !strings.Contains(err.Error(), "hears broadcasts") {
			t.Errorf("without the guards: %v", err)
		}
	})
}
