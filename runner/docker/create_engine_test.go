package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// C7, K4: a task's sandbox is created and not started; Exec starts it; Stop
// and Kill of a sandbox that is gone are nil.
func TestC7CreateStatusStop(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		spec := specFor(t, rt)
		ref := w.sandbox(t, spec)
		if s, err := w.Status(t.Context(), ref); err != nil || s.State != types.StateStarting {
			t.Errorf("after create: %+v, %v", s, err)
		}
		if id, err := w.Exec(t.Context(), ref, nil); err != nil || id != "" {
			t.Fatalf("Exec = %q, %v", id, err)
		}
		if s, err := w.Status(t.Context(), ref); err != nil || s.State != types.StateRunning {
			t.Errorf("after Exec: %+v, %v", s, err)
		}
		for range 2 {
			if err := w.StopSandbox(t.Context(), ref); err != nil {
				t.Error(err)
			}
		}
		if err := w.KillSandbox(t.Context(), ref); err != nil {
			t.Error(err)
		}
	})
}

// K4: without a task the sandbox idles and runs at once.
func TestK4IdleSandboxRuns(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		spec := specFor(t, rt)
		spec.Task = nil
		ref := w.sandbox(t, spec)
		s, err := w.Status(t.Context(), ref)
		if err != nil || s.State != types.StateRunning {
			t.Errorf("%+v, %v", s, err)
		}
		x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: []string{"cat", "/etc/hosts", "/etc/resolv.conf"}})
		if err != nil {
			t.Fatal(err)
		}
		if out := drain(x, nil).stdout; !strings.Contains(out, "127.0.0.1 localhost\n") || !strings.Contains(out, " wardyn-proxy\n") || !strings.Contains(out, " agent\n") {
			t.Errorf("names: %s", out)
		}
	})
}

// R14, B21: a sidecar that cannot have its configuration ends, and the error
// says what it said. Nothing is left.
func TestR14SidecarEndsAtItsStart(t *testing.T) {
	w := newWorld(t)
	w.assumeWorks(t, types.CC1, "runc")
	w.control.refuse = "planted reason"
	_, err := w.CreateSandbox(t.Context(), specFor(t, "runc"))
	if err == nil || !strings.Contains(err.Error(), "exit code 3") || !strings.Contains(err.Error(), "planted reason") {
		t.Errorf("err = %v", err)
	}
	if left := testenv.Leftovers(t, w.opts.Endpoint, labelRun); len(left) > 0 && strings.Contains(strings.Join(left, " "), w.opts.Dir.Instance()) {
		t.Errorf("left: %q", left)
	}
}

// R34, B26: an image with an entrypoint and one that starts nothing.
func TestR34ImageEntrypoint(t *testing.T) {
	w := newWorld(t)
	w.assumeWorks(t, types.CC1, "runc")
	img := testenv.ImageWith(t, testenv.ImageConfig{
		Entrypoint: []string{"/bin/echo", "entry"}, Cmd: []string{"default"}, User: "agent", WorkingDir: "/home/agent", StopSignal: "SIGUSR1",
	})
	for _, tc := range []struct {
		task runner.TaskProcess
		want string
	}{
		{runner.TaskProcess{}, "entry default\n"},
		{runner.TaskProcess{Argv: []string{"mine"}}, "entry mine\n"},
		{runner.TaskProcess{Entrypoint: []string{"/bin/sh", "-c"}, Argv: []string{"id -un; pwd"}}, "agent\n/home/agent\n"},
	} {
		out := newCollector()
		tc.task.Output = out
		spec := runner.SandboxSpec{RunID: uuid.New(), Image: img, Task: &tc.task}
		ref := w.startedSandbox(t, spec)
		if code, err := w.Wait(soon(t), ref); code != 0 || err != nil {
			t.Errorf("%+v: %d, %v", tc.task, code, err)
		}
		if got, errs := out.streams(t); got != tc.want {
			t.Errorf("%+v: %q %q", tc.task, got, errs)
		}
		c, err := w.cl.ContainerInspect(t.Context(), ref)
		if err != nil || c.Config.StopSignal != "SIGUSR1" {
			t.Errorf("stop signal %q, %v", c.Config.StopSignal, err)
		}
	}
}

// K20: without a network there is no sidecar and nothing to reach.
func TestK20NoNetwork(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		out := newCollector()
		spec := specFor(t, rt)
		spec.Task = &runner.TaskProcess{Argv: sh("ls /sys/class/net 2>/dev/null || cat /proc/net/dev; env; cat /etc/hosts"), NoNetwork: true, Output: out, Hostname: "box"}
		ref := w.startedSandbox(t, spec)
		if _, err := w.Wait(soon(t), ref); err != nil {
			t.Fatal(err)
		}
		got, errs := out.streams(t)
		if strings.Contains(got, "eth0") || strings.Contains(strings.ToLower(got), "http_proxy") || !strings.Contains(got, "127.0.1.1 box") {
			t.Errorf("%s%s", got, errs)
		}
		if _, err := w.cl.ContainerInspect(t.Context(), ProxyName(spec.RunID)); err == nil {
			t.Error("there is a sidecar")
		}
	})
}

// R8, R7, S37: leftovers of a run whose process died are cleared by the next
// attempt, two networks of one name included.
func TestR8LeftoversOnTheEngine(t *testing.T) {
	eachRuntime(t, leftoversOnTheEngine)
}

func leftoversOnTheEngine(t *testing.T, rt string) {
	w := newWorld(t)
	w.assumeWorks(t, classFor(rt), rt)
	spec := specFor(t, rt)
	ref := w.startedSandbox(t, spec)
	if err := w.cl.ContainerPause(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	// The process dies: its sockets are gone, its memory too.
	if err := w.control.Close(spec.RunID); err != nil {
		t.Fatal(err)
	}
	again := &world{cl: w.cl, control: w.control}
	var err error
	if again.Runner, err = newRunner(w.opts, w.cl); err != nil {
		t.Fatal(err)
	}
	again.assumeWorks(t, classFor(rt), rt)
	if _, err := again.CreateSandbox(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	nets, err := again.runNetworks(t.Context(), NetworkName(spec.RunID))
	if err != nil || len(nets) != 1 {
		t.Errorf("networks %v, %v", nets, err)
	}
}

// R7, B25: the engine lets two networks have one name; both are taken down.
func TestR7TwinNetworks(t *testing.T) {
	w := newWorld(t)
	host := mustFacts(t, w.Runner)
	run := uuid.New()
	name := NetworkName(run)
	labels := w.reserved(name, componentNetwork)
	var avoid []string
	for range 2 {
		var o network.CreateOptions
		for i := range 250 {
			o = runNetworkOptions(goldenPlan, host, labels)
			o.IPAM.Config[0].Subnet, o.IPAM.Config[0].Gateway = fmt.Sprintf("10.216.%d.0/29", i), fmt.Sprintf("10.216.%d.1", i)
			resp, err := w.cl.NetworkCreate(t.Context(), name, o)
			if isOverlap(err) {
				continue
			}
			if err != nil && strings.Contains(err.Error(), "already exists") {
				break // this engine looks for duplicates, as it is asked to
			}
			if err != nil {
				t.Fatal(err)
			}
			avoid = append(avoid, resp.ID)
			break
		}
	}
	if err := w.removeNetworks(t.Context(), name); err != nil {
		t.Error(err)
	}
	for _, id := range avoid {
		if _, err := w.cl.NetworkInspect(t.Context(), id, network.InspectOptions{}); err == nil {
			t.Errorf("network %s is left", id)
		}
	}
}

// S4, S61: several sandboxes at a time get along, also as two instances on one
// engine.
func TestS61ParallelCreates(t *testing.T) {
	a, b := newWorld(t), newWorld(t)
	var wg sync.WaitGroup
	for i := range 6 {
		w := []*world{a, b}[i%2]
		w.assumeWorks(t, types.CC1, "runc")
		spec := specFor(t, "runc")
		wg.Go(func() {
			sb, err := w.CreateSandbox(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			if err := w.KillSandbox(t.Context(), sb.Ref); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// R27, C22: a caller that gives up while the real engine is at work leaves nothing.
func TestR27CancelledOnTheEngine(t *testing.T) {
	w := newWorld(t)
	w.assumeWorks(t, types.CC1, "runc")
	w.control.never = true
	ctx, cancel := context.WithCancel(t.Context())
	spec := specFor(t, "runc")
	done := make(chan error)
	go func() { _, err := w.CreateSandbox(ctx, spec); done <- err }()
	testenv.Eventually(t, "agent container", func() bool {
		_, err := w.cl.ContainerInspect(t.Context(), AgentName(spec.RunID))
		return err == nil
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	for _, name := range []string{AgentName(spec.RunID), ProxyName(spec.RunID)} {
		if _, err := w.cl.ContainerInspect(t.Context(), name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// Invariant 6: anonymous volumes of an image go with its container.
func TestAnonymousVolumesGo(t *testing.T) {
	w := newWorld(t)
	w.assumeWorks(t, types.CC1, "runc")
	spec := specFor(t, "runc")
	c, err := w.prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := agentConfig(agentInput{Spec: c.spec, Class: c.class, Runtime: c.runtime, Image: c.image, Host: c.host,
		Recorder: c.record, Files: t.TempDir(), Labels: w.reservedOf(AgentName(spec.RunID), componentAgent, spec.RunID, c.class)})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Config.Volumes = map[string]struct{}{"/data": {}}
	cfg.HostConfig.Mounts = nil
	id, err := w.createContainer(t.Context(), AgentName(spec.RunID), cfg)
	if err != nil {
		t.Fatal(err)
	}
	made, err := w.cl.ContainerInspect(t.Context(), id)
	if err != nil || len(made.Mounts) != 1 {
		t.Fatalf("mounts %v, %v", made.Mounts, err)
	}
	if err := w.KillSandbox(t.Context(), AgentName(spec.RunID)); err != nil {
		t.Error(err)
	}
	if _, err := w.cl.VolumeInspect(t.Context(), made.Mounts[0].Name); err == nil {
		t.Error("the volume is left")
		w.cl.VolumeRemove(t.Context(), made.Mounts[0].Name, true)
	}
}
