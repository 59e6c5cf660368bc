package host

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// output is a writer that several goroutines may use.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

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

func newShell(t *testing.T, p *Plugin, command string) (*Task, *output) {
	t.Helper()
	var out output
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
