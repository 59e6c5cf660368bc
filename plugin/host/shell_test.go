package host

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

func newAlloc(t *testing.T, p *Plugin) *Alloc {
	t.Helper()
	a, err := p.NewAlloc(deadline(t), AllocSpec{
		Root: t.TempDir(), ID: uuid.NewString(), JobID: "j", JobName: "job", Namespace: "default", Group: "g",
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newShell(t *testing.T, p *Plugin, command string) (*Task, *testenv.Buffer) {
	t.Helper()
	var out testenv.Buffer
	task, err := newAlloc(t, p).NewTask(TaskSpec{
		Name: "web", Config: map[string]any{"command": command}, Stdout: &out, Stderr: &out,
		Resources: Resources{CPU: 100, MemoryMB: 64}, StatsInterval: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killLeftover(task.Handle()) })
	return task, &out
}

// killLeftover ends the shell of a fake task, should a failed test have left it.
func killLeftover(h TaskHandle) {
	left := &fakeTask{}
	if json.Unmarshal(h.DriverState, left) == nil {
		left.kill()
	}
}

func startShell(t *testing.T, p *Plugin, command string) *Task {
	t.Helper()
	task, _ := newShell(t, p, command)
	if err := task.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return task
}
