package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestTaskLife(t *testing.T) {
	p, dir := launch(t, Options{})
	eventually(t, "both streams open", func() bool { return opened(t, dir, p.Pid()) })
	task, out := newShell(t, p, `echo to stdout; echo to stderr >&2; exit 7`)
	var ids []string
	for range 2 { // a restart has a new id and appends to the same logs
		if err := task.Start(deadline(t)); err != nil {
			t.Fatal(err)
		}
		exit, err := task.Wait(deadline(t))
		if err != nil || exit != (ExitResult{ExitCode: 7}) || exit.Successful() {
			t.Fatalf("exit %+v, error %v", exit, err)
		}
		ids = append(ids, task.ID())
	}
	pattern := regexp.MustCompile(`^[0-9a-f-]{36}/web/[0-9a-f]{8}$`)
	if !pattern.MatchString(ids[0]) || !pattern.MatchString(ids[1]) || ids[0] == ids[1] {
		t.Errorf("ids %v", ids)
	}
	for stream, want := range map[string]string{"stdout": "to stdout\nto stdout\n", "stderr": "to stderr\nto stderr\n"} {
		data, err := os.ReadFile(filepath.Join(task.alloc.dir.Logs, "web."+stream+".0"))
		if err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", stream, data, err)
		}
	}
	if got := strings.Count(out.String(), "\n"); got != 4 {
		t.Errorf("copies: %q", out)
	}
	m := methods(t, dir, p.Pid())
	if count(m, "DestroyTask") != 2 || m[len(m)-1] != "DestroyTask" {
		t.Errorf("calls: %v", m)
	}
	for _, c := range calls(t, dir) {
		if c.Method == "DestroyTask" && c.Detail != true {
			t.Error("a client always forces")
		}
	}
	if b := p.Breaches(); len(b) != 0 {
		t.Errorf("breaches: %v", b)
	}
}

func TestStop(t *testing.T) {
	f := newFake(nil)
	p := inMemory(t, f, Options{})
	p.stopRetries = []time.Duration{time.Millisecond, time.Millisecond}
	failures := 2
	f.stop = func() error {
		if failures--; failures >= 0 {
			return errors.New("engine does not answer")
		}
		return nil
	}
	task, err := newAlloc(t, p).NewTask(TaskSpec{
		Name: "web", Config: map[string]any{"command": "sleep 3600"}, KillTimeout: time.Hour, KillSignal: "SIGINT",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Stop(deadline(t)); err != nil {
		t.Fatal("before the first start:", err)
	}
	if err := task.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := task.Start(deadline(t)); err == nil {
		t.Error("a running task was started a second time")
	}
	if err := task.Stop(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if exit, err := task.Wait(deadline(t)); err != nil || exit.ExitCode != 137 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	if task.spec.KillTimeout != maxKillTimeout {
		t.Errorf("kill timeout %v", task.spec.KillTimeout)
	}
	if err := task.Stop(deadline(t)); err != nil {
		t.Error("after the end:", err)
	}
}

func TestTaskFailsToStart(t *testing.T) {
	f := newFake(nil)
	p := inMemory(t, f, Options{})
	task, _ := newShell(t, p, "true")
	f.startErr = status.Error(codes.FailedPrecondition, "no such image")
	if err := task.Start(deadline(t)); err == nil || ErrorText(err) != "no such image" || IsRecoverable(err) {
		t.Errorf("error %v", err)
	}
	if _, err := task.Wait(t.Context()); err == nil {
		t.Error("a task that did not start has no exit")
	}

	f.startErr = nil
	if err := task.Start(deadline(t)); err != nil {
		t.Fatal("second attempt:", err)
	}
	if exit, err := task.Wait(deadline(t)); err != nil || !exit.Successful() {
		t.Errorf("exit %+v, error %v", exit, err)
	}
}

func TestTaskWithoutLogs(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	task, err := newAlloc(t, p).NewTask(TaskSpec{
		Name: "web", Config: map[string]any{"command": "echo x"}, Logs: LogSpec{Disabled: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if cfg := task.Handle().Config; cfg.StdoutPath != "/dev/null" || cfg.StderrPath != "/dev/null" {
		t.Errorf("paths %q, %q", cfg.StdoutPath, cfg.StderrPath)
	}
	if _, err := task.Wait(deadline(t)); err != nil {
		t.Error(err)
	}
}

func TestTaskUsageAndConfig(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{Node: Node{Cores: []Core{{MHz: 1000}, {ID: 1, MHz: 1000}, {ID: 2, MHz: 5000, Disabled: true}}}})
	task := startShell(t, p, "sleep 3600")
	eventually(t, "a sample", func() bool { return !task.Usage().Time.IsZero() })
	if u := task.Usage(); u.CPU.Percent != 12.5 || u.Memory.Usage != 42 || len(u.Pids) != 1 || !slices.Equal(u.Memory.Measured, []string{"USAGE"}) {
		t.Errorf("usage %+v", u)
	}
	cfg := task.Handle().Config
	if cfg.Resources.CPUFraction != 0.05 {
		t.Errorf("fraction %v", cfg.Resources.CPUFraction)
	}
	if cfg.Env["NOMAD_TASK_DIR"] != "/local" || cfg.Env["NOMAD_ALLOC_ID"] != cfg.AllocID {
		t.Errorf("environment %v", cfg.Env)
	}
	if err := task.Stop(deadline(t)); err != nil {
		t.Error(err)
	}
}

// TestTaskAfterAWaitError: for a client a wait that fails is an exit, and the breach is noted
// because the task runs (trap 15).
func TestTrap15WaitError(t *testing.T) {
	f := newFake(nil)
	p := inMemory(t, f, Options{})
	f.wait = waitFails(errors.New("engine does not answer"))
	task := startShell(t, p, "sleep 3600")
	exit, err := task.Wait(deadline(t))
	if err != nil || exit.Err != "engine does not answer" || exit.Successful() {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	if !hasBreach(p, TrapWaitError) {
		t.Errorf("breaches: %v", p.Breaches())
	}
}

func TestWaitIsBoundedByItsContext(t *testing.T) {
	p := inMemory(t, newFake(nil), Options{})
	task := startShell(t, p, "sleep 3600")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := task.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := task.Stop(deadline(t)); err != nil {
		t.Error(err)
	}
}
