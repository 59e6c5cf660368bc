package plugin

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

func TestDestroyForce(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	running, _ := b.plugin().tasks.get(TaskID(tc.ID))
	if err := b.host.DestroyTask(b.ctx(), tc.ID, false); err == nil {
		t.Fatal("a running task was destroyed without force")
	}
	if st, err := b.host.InspectTask(b.ctx(), tc.ID); err != nil || st.State != host.TaskRunning {
		t.Errorf("after the refusal: %+v, %v", st, err)
	}
	b.destroy(tc.ID)
	// Whoever waited for it has been told.
	if o, ended := running.exit(); !ended || o.Code != 137 || o.Signal != 9 || o.Err != "" {
		t.Errorf("exit %+v, %v", o, ended)
	}
	b.nothingLeft()
}

// TestDestroyOfATaskNeverSeen: the client sends it after a failed recovery.
func TestDestroyOfATaskNeverSeen(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	b.crash()
	b.destroy(tc.ID)
	list, err := b.fake.ListSandboxes(t.Context())
	if err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	b.destroy(uuid.NewString() + "/web/00000000")
}

// TestI6DestroyIsTriedAgain: a client only logs the error and never comes back.
func TestI6DestroyIsTriedAgain(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("true"))
	b.wait(tc.ID)
	b.fake.SetFault(func(_ context.Context, op, _ string) error {
		if op == "KillSandbox" {
			return runner.ErrUnavailable
		}
		return nil
	})
	if err := b.host.DestroyTask(b.ctx(), tc.ID, true); err == nil {
		t.Fatal("the destroy that failed says nothing")
	}
	b.fake.SetFault(nil)
	b.eventually("the sandbox is gone", func() bool {
		list, err := b.fake.ListSandboxes(t.Context())
		staged, _ := filepath.Glob(b.stage + "/*")
		return err == nil && len(list) == 0 && len(b.control.Runs()) == 0 && len(staged) == 0
	})
	b.nothingLeft()
}

// TestI3LeftoversOfTheSameTask: a plugin that died in StartTask gets the same
// id again; a restart has another id of the same session.
func TestLeftoversAreCleared(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc := b.task("web", args("idle"))
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	b.crash() // and the client never got a handle
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatalf("same id: %v", err)
	}
	if _, _, err := b.host.StartTask(b.ctx(), tc); err == nil {
		t.Error("an id that runs was started again")
	}
	b.crash()
	old := tc.ID
	tc.ID = tc.AllocID + "/web/ffffffff"
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatalf("next attempt: %v", err)
	}
	list, _ := b.fake.ListSandboxes(t.Context())
	if len(list) != 1 || list[0].Ref != refOf(tc) {
		t.Errorf("running: %v, not %s alone", list, refOf(tc))
	}
	b.destroy(tc.ID)
	b.destroy(old)
	b.nothingLeft()
}

// TestI6AttemptsThatTheClientForgot: an agent that is killed before it has written
// a handle down starts the task anew, under another id, while the plugin lives on.
func TestI6AttemptsThatTheClientForgot(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, _ := b.start("web", args("idle"))
	forgotten, _ := b.plugin().tasks.get(TaskID(tc.ID))
	sibling := tc
	sibling.ID, sibling.Name = tc.AllocID+"/other/00000000", "other"
	for _, dir := range []string{"local", "secrets"} {
		if err := os.MkdirAll(filepath.Join(tc.AllocDir, "other", dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := b.host.StartTask(b.ctx(), sibling); err != nil {
		t.Fatal(err)
	}
	next := tc
	next.ID = tc.AllocID + "/web/ffffffff"
	if _, _, err := b.host.StartTask(b.ctx(), next); err != nil {
		t.Fatal(err)
	}
	var refs []string
	list, _ := b.fake.ListSandboxes(t.Context())
	for _, l := range list {
		refs = append(refs, l.Ref)
	}
	slices.Sort(refs)
	want := []string{refOf(next), refOf(sibling)}
	slices.Sort(want)
	if !slices.Equal(refs, want) {
		t.Errorf("running: %v, want %v", refs, want)
	}
	if _, ended := forgotten.exit(); !ended {
		t.Error("whoever waits for the forgotten attempt is not told")
	}
	for _, id := range []string{tc.ID, sibling.ID, next.ID} {
		b.destroy(id)
	}
	b.nothingLeft()
}

// TestI6DestroyWhileStarting: what a client takes down while it is being started
// does not come up afterwards.
func TestI6DestroyWhileStarting(t *testing.T) {
	b := newBench(t, benchOptions{})
	reached := make(chan struct{})
	b.fake.SetFault(func(ctx context.Context, op, _ string) error {
		if op == "CreateSandbox" {
			close(reached)
			<-ctx.Done() // and the sandbox is made all the same
		}
		return nil
	})
	tc := b.task("web", args("idle"))
	started := make(chan error, 1)
	go func() {
		_, _, err := b.host.StartTask(b.ctx(), tc)
		started <- err
	}()
	<-reached
	if err := b.host.DestroyTask(b.ctx(), tc.ID, false); err == nil {
		t.Error("destroyed without force, while it was being started")
	}
	b.destroy(tc.ID)
	if err := <-started; err == nil {
		t.Error("what was destroyed has started")
	}
	if _, known := b.plugin().tasks.get(TaskID(tc.ID)); known {
		t.Error("the task runs")
	}
	b.nothingLeft()
}

// TestI6DestroyAmidARecovery: the control plane of a recovered task is taken up
// beside the client's start; what is destroyed meanwhile does not keep one.
func TestI6DestroyAmidARecovery(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc, h := b.start("web", args("true"))
	b.wait(tc.ID)
	b.crash()
	if err := b.control.Forget(RunID(TaskID(tc.ID))); err != nil { // it died with its process
		t.Fatal(err)
	}
	b.control.mu.Lock()
	b.control.held = make(chan struct{})
	b.control.mu.Unlock()
	if err := b.host.RecoverTask(b.ctx(), h); err != nil {
		t.Fatal(err)
	}
	b.wait(tc.ID)
	b.eventually("the control plane is being taken up", func() bool {
		b.control.mu.Lock()
		defer b.control.mu.Unlock()
		return len(b.control.resumed) == 1
	})
	b.destroy(tc.ID)
	close(b.control.held)
	b.eventually("nothing is left", func() bool {
		b.control.mu.Lock()
		defer b.control.mu.Unlock()
		return b.control.over == 1 && len(b.control.Runs()) == 0
	})
	b.nothingLeft()
}
