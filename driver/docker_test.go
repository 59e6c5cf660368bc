package driver_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/driver"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/runnertest"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

func docker(o driver.DockerOpts) (*driver.Docker, *runnertest.Fake) {
	e := runnertest.New(runnertest.Options{})
	return driver.NewDocker(e, o), e
}

// built creates a session and returns what the engine was asked for.
func built(t *testing.T, o driver.DockerOpts, spec driver.Spec) runner.SandboxSpec {
	t.Helper()
	d, e := docker(o)
	h, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Spec(h.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestD5Defaults(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	if _, total, _ := d.Capacity(t.Context()); total != 16 {
		t.Errorf("%d slots, want 16", total)
	}
	h, err := d.Create(t.Context(), driver.Spec{SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if spec, _ := e.Spec(h.ID); spec.Labels["wardyn.session"] != "s" {
		t.Errorf("labels %v", spec.Labels)
	}
	if got := built(t, driver.DockerOpts{Image: "i", Label: "x.session"}, driver.Spec{SessionID: "s"}); got.Labels["x.session"] != "s" {
		t.Errorf("labels %v", got.Labels)
	}
}

func TestD8Image(t *testing.T) {
	o := driver.DockerOpts{Image: "default"}
	for want, spec := range map[string]driver.Spec{
		"default": {},
		"own":     {Image: "own"},
		"sandbox": {Sandbox: runner.SandboxSpec{Image: "sandbox"}},
	} {
		if got := built(t, o, spec).Image; got != want {
			t.Errorf("image %q, want %q", got, want)
		}
	}
}

func TestD11WorkspaceMount(t *testing.T) {
	o := driver.DockerOpts{Image: "i"}
	got := built(t, o, driver.Spec{SessionID: "s"})
	want := []runner.TaskMount{{Volume: "rainier-ws-s", Target: "/workspace"}}
	if got.Task.WorkDir != "/workspace" || !reflect.DeepEqual(got.Task.Mounts, want) {
		t.Errorf("work dir %q, mounts %+v", got.Task.WorkDir, got.Task.Mounts)
	}
	if got := built(t, o, driver.Spec{}); got.Task.WorkDir != "" || got.Task.Mounts != nil {
		t.Errorf("without an id: %+v", got.Task)
	}
	// K39: with a process of the caller's, mounts are the caller's too.
	if got := built(t, o, driver.Spec{SessionID: "s", Sandbox: runner.SandboxSpec{Task: &runner.TaskProcess{}}}); got.Task.Mounts != nil {
		t.Errorf("mounts %+v, want the caller's none", got.Task.Mounts)
	}
}

func TestD17Command(t *testing.T) {
	o := driver.DockerOpts{Image: "i"}
	if got := built(t, o, driver.Spec{}); got.Task == nil || got.Task.Argv != nil || got.Task.Entrypoint != nil || got.Task.Idle {
		t.Errorf("no command: %+v, want the image's own", got.Task)
	}
	cmd := []string{"sh", "-c", "true"}
	if got := built(t, o, driver.Spec{Cmd: cmd}); !slices.Equal(got.Task.Argv, cmd) {
		t.Errorf("command: %+v", got.Task)
	}
	task := &runner.TaskProcess{User: "u"}
	if got := built(t, o, driver.Spec{Cmd: cmd, Sandbox: runner.SandboxSpec{Task: task}}); !slices.Equal(got.Task.Argv, cmd) || got.Task.User != "u" {
		t.Errorf("command with the caller's process: %+v", got.Task)
	}
	if task.Argv != nil {
		t.Error("the caller's process was written to")
	}
}

func TestD18HostsJoinThePolicy(t *testing.T) {
	policy := types.RunPolicySpec{AllowedDomains: append(make([]string, 0, 8), "a.example")}
	spec := driver.Spec{EgressAllow: []string{"b.example", "a.example"},
		Sandbox: runner.SandboxSpec{ProxyConfig: runner.ProxyConfig{Policy: policy}}}
	got := built(t, driver.DockerOpts{Image: "i"}, spec)
	if want := []string{"a.example", "b.example"}; !slices.Equal(got.ProxyConfig.Policy.AllowedDomains, want) {
		t.Errorf("allowed %v, want %v", got.ProxyConfig.Policy.AllowedDomains, want)
	}
	if extra := policy.AllowedDomains[:2][1]; extra != "" {
		t.Errorf("B1: the caller's list grew to hold %q", extra)
	}
}

func TestD19NameHasNoEffect(t *testing.T) {
	run := uuid.New()
	for _, name := range []string{"", "label"} {
		d, e := docker(driver.DockerOpts{Image: "i"})
		h, err := d.Create(t.Context(), driver.Spec{Name: name, Sandbox: runner.SandboxSpec{RunID: run}})
		if err != nil || h.ID != runnertest.Ref(run) || len(e.Left()) != 1 {
			t.Errorf("name %q: %+v, %v, left %v", name, h, err, e.Left())
		}
	}
}

func TestLabelsAndEnvironmentReachTheSandbox(t *testing.T) {
	labels := map[string]string{driver.NamespaceLabel: "team"}
	got := built(t, driver.DockerOpts{Image: "i"}, driver.Spec{SessionID: "s", Env: map[string]string{"A": "1"},
		Sandbox: runner.SandboxSpec{Labels: labels}})
	if got.Labels[driver.NamespaceLabel] != "team" || got.Labels[driver.DefaultLabel] != "s" {
		t.Errorf("labels %v", got.Labels)
	}
	if got.Env["A"] != "1" || got.Env["WARDYN_SESSION"] != "s" {
		t.Errorf("environment %v", got.Env)
	}
	if len(labels) != 1 {
		t.Errorf("the caller's labels were written to: %v", labels)
	}
}

// D7: however many creates race for two slots, two win.
func TestD7CapacityIsAtomic(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i", TotalSlots: 2})
	var counted atomic.Int32
	all := make(chan struct{})
	e.SetFault(func(_ context.Context, op, _ string) error {
		switch op {
		case "ListSandboxes":
			if counted.Add(1) == 16 {
				close(all)
			}
		case "CreateSandbox": // nobody is to be seen on the engine until everybody has looked
			<-all
		}
		return nil
	})
	var mu sync.Mutex
	var won, refused int
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			_, err := d.Create(t.Context(), driver.Spec{SessionID: fmt.Sprint("s", i)})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, runner.ErrExhausted):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 2 || refused != 14 {
		t.Errorf("%d won and %d were refused, want 2 and 14", won, refused)
	}
	if left := e.Left(); len(left) != 4 { // two sandboxes, two workspaces
		t.Errorf("left %v", left)
	}
}

// afterExec is an engine whose sandboxes run a while before Exec returns.
type afterExec struct {
	*runnertest.Fake
	then func()
}

func (e *afterExec) Exec(ctx context.Context, ref string, argv []string) (string, error) {
	id, err := e.Fake.Exec(ctx, ref, argv)
	e.then()
	return id, err
}

// D33: a session that runs while its create is under way takes one slot, not two.
func TestD33NothingIsCountedTwice(t *testing.T) {
	e := &afterExec{Fake: runnertest.New(runnertest.Options{})}
	d := driver.NewDocker(e, driver.DockerOpts{Image: "i"})
	e.then = func() {
		if used, _, err := d.Capacity(t.Context()); used != 1 || err != nil {
			t.Errorf("%d slots used, %v; want 1", used, err)
		}
	}
	if _, err := d.Create(t.Context(), driver.Spec{}); err != nil {
		t.Fatal(err)
	}
}

// D7: nothing is asked of the engine but how full it is.
func TestD7RefusedBeforeAnythingIsMade(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i", TotalSlots: 1})
	if _, err := d.Create(t.Context(), driver.Spec{}); err != nil {
		t.Fatal(err)
	}
	before := len(e.Calls())
	if _, err := d.Create(t.Context(), driver.Spec{SessionID: "s"}); !errors.Is(err, runner.ErrExhausted) {
		t.Fatal(err)
	}
	if calls := e.Calls()[before:]; len(calls) != 1 || calls[0].Op != "ListSandboxes" {
		t.Errorf("calls %v", calls)
	}
}

func TestFaultsAreFoundBeforeTheEngineIsAsked(t *testing.T) {
	d, e := docker(driver.DockerOpts{Network: "n"})
	_, err := d.Create(t.Context(), driver.Spec{ProxyURL: "http://x", Setup: "s", Home: &driver.HomeMount{Volume: "v"}})
	for _, want := range []string{"image", "proxy_url", "home", "DockerOpts.Network"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	if !errors.Is(err, runner.ErrUnsupported) || !errors.Is(err, runner.ErrInvalid) {
		t.Errorf("%v wraps not both sentinels", err)
	}
	if calls := e.Calls(); len(calls) != 0 {
		t.Errorf("calls %v", calls)
	}
}

// Whatever step fails, nothing is left; also when the caller is gone by then.
func TestCreateLeavesNothingBehind(t *testing.T) {
	for _, op := range []string{"ListSandboxes", "VolumePresent", "CreateVolume", "CreateSandbox", "Exec"} {
		t.Run(op, func(t *testing.T) {
			d, e := docker(driver.DockerOpts{Image: "i"})
			ctx, cancel := context.WithCancel(t.Context())
			broken := errors.New("broken")
			e.SetFault(func(_ context.Context, got, _ string) error {
				if got == op {
					cancel()
					return broken
				}
				return nil
			})
			if _, err := d.Create(ctx, driver.Spec{SessionID: "s"}); !errors.Is(err, broken) {
				t.Errorf("%v, want the engine's error", err)
			}
			if left := e.Left(); len(left) != 0 {
				t.Errorf("left %v", left)
			}
			e.SetFault(nil)
			if used, _, err := d.Capacity(t.Context()); used != 0 || err != nil {
				t.Errorf("the slot is still taken: %d, %v", used, err)
			}
			if _, err := d.Create(t.Context(), driver.Spec{SessionID: "s"}); err != nil {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

func TestFailedCreateKeepsAWorkspaceThatWasThere(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	h, err := d.Create(t.Context(), driver.Spec{SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.DestroyContainer(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	e.SetFault(func(_ context.Context, op, _ string) error {
		if op == "Exec" {
			return errors.New("broken")
		}
		return nil
	})
	if _, err := d.Create(t.Context(), driver.Spec{SessionID: "s"}); err == nil {
		t.Fatal("created all the same")
	}
	if left := e.Left(); !slices.Equal(left, []string{"volume:rainier-ws-s"}) {
		t.Errorf("left %v", left)
	}
}

func TestUndoThatFailsIsReported(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	e.SetFault(func(_ context.Context, op, _ string) error {
		if op == "Exec" || op == "KillSandbox" {
			return errors.New(op + " is broken")
		}
		return nil
	})
	_, err := d.Create(t.Context(), driver.Spec{})
	if err == nil || !strings.Contains(err.Error(), "Exec is broken") || !strings.Contains(err.Error(), "KillSandbox is broken") {
		t.Errorf("%v, want both errors", err)
	}
}

func TestK26WorkspaceOfAnotherNamespace(t *testing.T) {
	d, _ := docker(driver.DockerOpts{Image: "i"})
	spec := func(ns string) driver.Spec {
		return driver.Spec{SessionID: "s", Sandbox: runner.SandboxSpec{Labels: map[string]string{driver.NamespaceLabel: ns}}}
	}
	h, err := d.Create(t.Context(), spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.DestroyContainer(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), spec("b")); !errors.Is(err, runner.ErrExists) {
		t.Errorf("namespace b gets a's workspace: %v", err)
	}
	if _, err := d.Create(t.Context(), spec("a")); err != nil {
		t.Errorf("namespace a: %v", err)
	}
}

// D32, D50: an engine that cannot be asked is an error, never gone or done.
func TestD32CannotAskIsNeverGone(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	h, err := d.Create(t.Context(), driver.Spec{SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	e.SetFault(func(context.Context, string, string) error { return runner.ErrUnavailable })
	ctx := t.Context()
	_, inspect := d.Inspect(ctx, h.ID)
	_, all := d.List(ctx)
	_, total, capacity := d.Capacity(ctx)
	if total != 16 {
		t.Errorf("D33: total %d with an error, want 16", total)
	}
	for name, err := range map[string]error{
		"inspect": inspect, "list": all, "capacity": capacity,
		"suspend": d.Suspend(ctx, h.ID, true), "resume": d.Resume(ctx, h.ID),
		"destroy": d.Destroy(ctx, h.ID), "destroy container": d.DestroyContainer(ctx, h.ID),
		"remove workspace": d.RemoveWorkspace(ctx, "s"), "prepull": d.Prepull(ctx, "i"),
	} {
		if !errors.Is(err, runner.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
	if left := e.Left(); len(left) != 2 {
		t.Errorf("left %v, want both untouched", left)
	}
}

// D46: what Destroy needs to know it asks before it removes anything.
func TestD46SessionIsReadFirst(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	h, err := d.Create(t.Context(), driver.Spec{SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	before := len(e.Calls())
	if err := d.Destroy(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	var ops []string
	for _, c := range e.Calls()[before:] {
		ops = append(ops, c.Op)
	}
	if want := []string{"ListSandboxes", "KillSandbox", "RemoveVolume"}; !slices.Equal(ops, want) {
		t.Errorf("calls %v, want %v", ops, want)
	}
}

func TestD30ResumeOfARunningOneCallsNothing(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	h, err := d.Create(t.Context(), driver.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	before := len(e.Calls())
	if err := d.Resume(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if calls := e.Calls()[before:]; len(calls) != 1 || calls[0].Op != "ListSandboxes" {
		t.Errorf("calls %v", calls)
	}
}

// What is on the engine and no session is not ours to count or to list.
func TestForeignSandboxesAreNotSessions(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	sb, err := e.CreateSandbox(t.Context(), runner.SandboxSpec{RunID: uuid.New(), Image: "probe"})
	if err != nil {
		t.Fatal(err)
	}
	if used, _, _ := d.Capacity(t.Context()); used != 0 {
		t.Errorf("%d slots used, want 0", used)
	}
	if l, _ := d.List(t.Context()); len(l) != 0 {
		t.Errorf("listed: %v", l)
	}
	if h, _ := d.Inspect(t.Context(), sb.Ref); h.State != driver.StateGone {
		t.Errorf("state %s", h.State)
	}
}

func TestD36SnapshotIsTheEnginesCommit(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	h, err := d.Create(t.Context(), driver.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := d.Snapshot(t.Context(), h.ID, "rainier-env:e-1", nil); err != nil || s.Ref != "rainier-env:e-1" {
		t.Errorf("D37: %+v, %v", s, err)
	}
	for _, err := range []error{
		func() error { _, err := d.Snapshot(t.Context(), "never", "x", nil); return err }(),
		func() error { _, err := d.Snapshot(t.Context(), h.ID, "x", []string{"A=B"}); return err }(),
	} {
		if err == nil {
			t.Error("accepted")
		}
	}
	n := 0
	for _, c := range e.Calls() {
		if c.Op == "Commit" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d commits, want the one that was right", n)
	}
}

func TestOneCreateASessionAtATime(t *testing.T) {
	d, e := docker(driver.DockerOpts{Image: "i"})
	var inner error
	e.SetFault(func(ctx context.Context, op, _ string) error {
		if op == "CreateSandbox" {
			_, inner = d.Create(ctx, driver.Spec{SessionID: "s"})
		}
		return nil
	})
	if _, err := d.Create(t.Context(), driver.Spec{SessionID: "s"}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(inner, runner.ErrExists) {
		t.Errorf("the second: %v, want ErrExists", inner)
	}
}
