package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestPluginCrashUnderATask: a new process gets the task with an empty task id and with the
// driver configuration (traps 10, 11); the task's exit code and output are whole.
func TestPluginCrashUnderATask(t *testing.T) {
	p, dir := launch(t, Options{})
	flag := filepath.Join(t.TempDir(), "go")
	task, out := newShell(t, p, `echo before; while [ ! -e `+flag+` ]; do sleep 0.01; done; echo after; exit 5`)
	if err := task.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "first output", func() bool { return out.String() == "before\n" })
	old := p.Pid()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the task waited for by the new process", func() bool {
		return p.Launches() == 2 && slices.Contains(methods(t, dir, p.Pid()), "WaitTask")
	})
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	exit, err := task.Wait(deadline(t))
	if err != nil || exit != (ExitResult{ExitCode: 5}) {
		t.Fatalf("exit %+v, error %v", exit, err)
	}
	if out.String() != "before\nafter\n" {
		t.Errorf("output %q", out)
	}
	m := methods(t, dir, p.Pid())
	i := slices.Index(m, "RecoverTask")
	if i < 0 || !slices.Contains(m[:i], "TaskConfigSchema") || !slices.Contains(m[:i], "Capabilities") {
		t.Errorf("calls of the new process: %v", m)
	}
	for _, c := range calls(t, dir) {
		if c.Method == "RecoverTask" {
			d := c.Detail.(map[string]any)
			if d["task_id"] != "" || d["id"] != task.ID() || d["driver_config"] == 0.0 {
				t.Errorf("RecoverTask: %v", d)
			}
		}
	}
}

// TestPluginDiesInStartTask: the new process is asked once more, with the same id.
func TestPluginDiesInStartTask(t *testing.T) {
	p, dir := launch(t, Options{PluginConfig: map[string]any{"trouble": "dies in StartTask"}})
	task := startShell(t, p, "exit 4")
	if exit, err := task.Wait(deadline(t)); err != nil || exit.ExitCode != 4 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	var starts []fakeCall
	for _, c := range calls(t, dir) {
		if c.Method == "StartTask" {
			starts = append(starts, c)
		}
	}
	if len(starts) != 2 || starts[0].Detail != starts[1].Detail || starts[0].Pid == starts[1].Pid {
		t.Errorf("StartTask calls: %v", starts)
	}
}

// TestTrap11AgentRestart: after an orderly end the next client recovers the task from the
// stored handle, which has no driver configuration.
func TestTrap11AgentRestart(t *testing.T) {
	first, _ := launch(t, Options{})
	flag := filepath.Join(t.TempDir(), "go")
	task, _ := newShell(t, first, `while [ ! -e `+flag+` ]; do sleep 0.01; done; exit 6`)
	if err := task.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(task.Handle())
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if _, err := task.Wait(deadline(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("wait of a client that is gone: %v", err)
	}

	second, dir := launch(t, Options{})
	var handle TaskHandle
	if err := json.Unmarshal(stored, &handle); err != nil {
		t.Fatal(err)
	}
	spec := task.alloc.spec
	a, err := second.NewAlloc(deadline(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.NewTask(task.spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Restore(deadline(t), handle); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	exit, err := again.Wait(deadline(t))
	if err != nil || exit.ExitCode != 6 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	for _, c := range calls(t, dir) {
		if c.Method == "RecoverTask" && c.Detail.(map[string]any)["driver_config"] != 0.0 {
			t.Errorf("RecoverTask: %v", c.Detail)
		}
		if c.Method == "StartTask" {
			t.Error("the task was started a second time")
		}
	}
	if err := a.Remove(); err != nil {
		t.Error(err)
	}
}
