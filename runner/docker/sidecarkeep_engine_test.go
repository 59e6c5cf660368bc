package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/control"
	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// keeping is a KeepSidecar under way.
type keeping struct {
	deaths chan runner.SidecarDeath
	ended  chan error
}

func (w *world) keep(t *testing.T, ref string) keeping {
	k := keeping{make(chan runner.SidecarDeath, 16), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		k.ended <- w.KeepSidecar(ctx, ref, func(d runner.SidecarDeath) { k.deaths <- d })
		close(k.ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range k.ended {
		}
	})
	return k
}

func (k keeping) death(t *testing.T) runner.SidecarDeath {
	t.Helper()
	select {
	case d := <-k.deaths:
		return d
	case err := <-k.ended:
		t.Fatalf("KeepSidecar: %v", err)
	case <-time.After(testenv.Patience):
		t.Fatal("nothing was heard of the sidecar's death")
	}
	return runner.SidecarDeath{}
}

// refusal is what the sidecar answers to a request for a host that no rule allows.
func (w *world) refusal(t *testing.T, ref string) string {
	t.Helper()
	x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: sh(
		`printf 'GET http://denied.example.com/ HTTP/1.1\r\nHost: denied.example.com\r\nConnection: close\r\n\r\n' | nc -w 60 wardyn-proxy 3128`)})
	if err != nil {
		t.Fatal(err)
	}
	return drain(x, nil).stdout
}

func (w *world) kill(t *testing.T, name string) {
	t.Helper()
	if err := w.cl.ContainerKill(t.Context(), name, "KILL"); err != nil {
		t.Fatal(err)
	}
}

// A sidecar that dies is replaced at its address with the policy it had, while
// the agent goes on; in between nothing is reached. The same by a process that
// did not make it.
func TestSidecarIsReplaced(t *testing.T) {
	endpoint := testenv.Engine(t)
	dir := testenv.Dir(t)
	testenv.NoLeftovers(t, endpoint, labelInstance+"="+dir.Instance())
	w, plane := realWorld(t, endpoint, dir)
	specs := map[string]runner.SandboxSpec{}
	for _, rt := range testenv.Runtimes(t) {
		w.assumeWorks(t, classFor(rt), rt)
		spec := specFor(t, rt)
		spec.ProxyConfig.Policy.AllowedDomains = []string{"allowed.example.com"}
		w.startedSandbox(t, spec)
		specs[rt] = spec
		spec.RunID = uuid.New()
		w.pooled = true
		w.startedSandbox(t, spec)
		w.pooled = false
		specs[rt+" pooled"] = spec
	}
	for rt, spec := range specs {
		t.Run(rt, func(t *testing.T) { w.testReplacement(t, spec) })
	}
	plane.Shutdown()
	second, plane2 := realWorld(t, endpoint, dir)
	for rt, spec := range specs {
		t.Run(rt+" after a restart of the driver", func(t *testing.T) {
			second.testRecoveredReplacement(t, spec, dir, plane2)
		})
	}
}

func (w *world) testReplacement(t *testing.T, spec runner.SandboxSpec) {
	ref := AgentName(spec.RunID)
	agent := w.startedAt(t, ref)
	runNet := w.netID(t, NetworkName(w.named(t, spec.RunID)))
	leg := w.address(t, w.sidecarOf(t, spec.RunID), runNet)
	w.sidecarIsMeasured(t, ref)
	k := w.keep(t, ref)
	_, release, err := w.making.begin(t.Context(), spec.RunID) // no replacement before we say so
	if err != nil {
		t.Fatal(err)
	}
	port := hostService(t)
	w.kill(t, w.sidecarOf(t, spec.RunID))
	targets := append(allWays(leg.Prev(), port), "tcp:"+leg.String()+":3128", fmt.Sprintf("udp:255.255.255.255:%d", port))
	for target, res := range w.netprobe(t, ref, recorderTarget, targets...) {
		if res.Reached {
			t.Errorf("without a sidecar %s is reached: %s", target, res.Detail)
		}
	}
	release()
	if d := k.death(t); d.Err != nil || d.Cause != "exit code 137" {
		t.Errorf("death: %+v", d)
	} else {
		w.sidecarIsMeasured(t, ref)
	}
	w.checkServed(t, spec, ref)
	if now := w.address(t, w.sidecarOf(t, spec.RunID), runNet); now != leg {
		t.Errorf("the sidecar is at %s now, was at %s", now, leg)
	}
	if now := w.startedAt(t, ref); now != agent {
		t.Errorf("the agent was started again")
	}
	// Removed altogether, and while the sandbox is suspended.
	if err := w.Pause(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if err := w.cl.ContainerRemove(t.Context(), w.sidecarOf(t, spec.RunID), container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if d := k.death(t); d.Err != nil {
		t.Errorf("death: %+v", d)
	}
	if err := w.Unpause(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	w.checkServed(t, spec, ref)
}

func (w *world) testRecoveredReplacement(t *testing.T, spec runner.SandboxSpec, dir *datadir.Dir, plane *control.Server) {
	ref := AgentName(spec.RunID)
	w.kill(t, w.sidecarOf(t, spec.RunID))
	k := w.keep(t, ref)
	if _, err := plane.Resume(t.Context(), control.Run{ID: spec.RunID}); err != nil {
		t.Fatal(err)
	}
	if d := k.death(t); d.Err != nil {
		t.Errorf("death: %+v", d)
	}
	w.checkServed(t, spec, ref)
	if err := w.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if err := testenv.Await(t, "the end of KeepSidecar", k.ended); err != nil {
		t.Errorf("KeepSidecar of a sandbox that is gone: %v", err)
	}
	if err := plane.Forget(spec.RunID); err != nil {
		t.Error(err)
	}
}

func (w *world) startedAt(t *testing.T, ref string) string {
	t.Helper()
	c, err := w.cl.ContainerInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return c.State.StartedAt
}

func (w *world) checkServed(t *testing.T, spec runner.SandboxSpec, ref string) {
	t.Helper()
	if got := w.refusal(t, ref); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "denied.example.com") {
		t.Errorf("run %s: want a refusal that names the host: %q", spec.RunID, got)
	}
}

// A sandbox whose sidecar cannot be replaced is stopped, and the reason is
// known before it is.
func TestSandboxWithoutSidecarIsStopped(t *testing.T) {
	w, _ := newRealWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	spec := specFor(t, "runc")
	spec.Task.Argv = sh("trap 'exit 0' TERM; while :; do sleep 0.1; done")
	ref := w.startedSandbox(t, spec)
	rec, err := w.opts.Dir.LoadRecord(spec.RunID)
	if err != nil {
		t.Fatal(err)
	}
	spoilt := rec
	spoilt.Subnet = "nonsense"
	if err := w.opts.Dir.SaveRecord(spoilt); err != nil {
		t.Fatal(err)
	}
	k := w.keep(t, ref)
	w.kill(t, w.sidecarOf(t, spec.RunID))
	if d := k.death(t); d.Err == nil || !strings.Contains(d.Err.Error(), "nonsense") {
		t.Errorf("death: %+v", d)
	}
	if err := testenv.Await(t, "the end of KeepSidecar", k.ended); !errors.Is(err, runner.ErrSidecarLost) {
		t.Errorf("KeepSidecar: %v", err)
	}
	if st, err := w.Status(t.Context(), ref); err != nil || st.ExitCode == nil {
		t.Errorf("the sandbox goes on: %+v, %v", st, err)
	}
	if err := w.opts.Dir.SaveRecord(rec); err != nil {
		t.Fatal(err)
	}
}

// A sidecar that dies over and over is not replaced for ever.
func TestSidecarThatKeepsDying(t *testing.T) {
	k := keepSidecar{run: uuid.New()}
	for range maxDeaths {
		k.deaths = append(k.deaths, time.Now())
	}
	if err := k.replace(t.Context(), "exit code 3"); err == nil || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("err = %v", err)
	}
	if err := (&Runner{}).KeepSidecar(t.Context(), "nonsense", nil); err == nil {
		t.Error("a ref that is none is no error")
	}
}

// named is what a run's network and sidecar are named after: the run, or its slot.
func (w *world) named(t *testing.T, run uuid.UUID) uuid.UUID {
	t.Helper()
	id, err := w.netOf(run)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) sidecarOf(t *testing.T, run uuid.UUID) string { return ProxyName(w.named(t, run)) }

// sidecarIsMeasured checks that a sidecar's use is found, by whatever name, and
// that it is moved to other CPUs with its sandbox.
func (w *world) sidecarIsMeasured(t *testing.T, ref string) {
	t.Helper()
	if u, err := w.SidecarUsage(t.Context(), ref); err != nil || u.MemoryRSS == 0 || u.CPUTotal == 0 || u.Pids == 0 {
		t.Errorf("the sidecar's use: %+v, %v", u, err)
	}
	before := w.cpus(t, sidecarGroup(ref))
	for _, cpus := range []string{"0", before} {
		if err := w.PinCPUs(t.Context(), ref, cpus); err != nil {
			t.Error(err)
		}
		if got := w.cpus(t, sidecarGroup(ref)); got != cpus || w.cpus(t, ref) != cpus {
			t.Errorf("the sidecar has the CPUs %s, want %s", got, cpus)
		}
	}
}
