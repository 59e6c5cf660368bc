package host

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// TestTrap23AgentCrash: a plugin that is left behind by a crashed client survives its next log
// line, is found again, keeps its configuration and is initialised again (trap 22).
func TestTrap23AgentCrash(t *testing.T) {
	first, dir := launch(t, Options{PluginConfig: map[string]any{"level": 7}})
	task := startShell(t, first, `sleep 3600`)
	handle, pid := task.Handle(), first.Pid()
	r := first.Detach()
	if r == nil || r.Pid != pid {
		t.Fatalf("Detach: %+v, pid %d", r, pid)
	}
	if _, err := task.Wait(deadline(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("a task of a client that is gone: %v", err)
	}

	o, _ := processOptions(t, Options{Reattach: r, PluginConfig: map[string]any{"level": 8}})
	o.Env = []string{fakeDir + "=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	second, err := Launch(deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	if second.Pid() != pid {
		t.Fatalf("process %d was not found again, got %d", pid, second.Pid())
	}
	// The fake logs each signal it refuses: on a broken pipe by now.
	for range 3 {
		if err := second.SignalTask(deadline(t), handle.Config.ID, "nonsense"); err == nil {
			t.Fatal("an unknown signal was taken")
		}
	}
	if err := second.RecoverTask(deadline(t), handle.Persisted()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "streams open again", func() bool {
		m := methods(t, dir, pid)
		return count(m, "Fingerprint") == 2 && count(m, "TaskEvents") == 2
	})
	m := methods(t, dir, pid)
	for _, c := range calls(t, dir) {
		if c.Method == "RecoverTask" && c.Detail.(map[string]any)["driver_config"] != 0.0 {
			t.Errorf("trap 11: a stored handle has no driver configuration: %v", c.Detail)
		}
	}
	if count(m, "SetConfig") != 1 || count(m, "Init") != 2 || count(m, "PluginInfo") != 1 {
		t.Errorf("calls of the process: %v", m)
	}
	if err := second.DestroyTask(deadline(t), handle.Config.ID, true); err != nil {
		t.Error(err)
	}
}

func TestReattachToNothingStartsAnew(t *testing.T) {
	p, _ := launch(t, Options{Reattach: &Reattach{Network: "unix", Addr: filepath.Join(t.TempDir(), "gone"), Pid: 1 << 22}})
	if p.Pid() == 0 || p.Pid() == 1<<22 {
		t.Errorf("pid %d", p.Pid())
	}
}

// TestLeftovers: neither an orderly end nor a crash leaves sockets or folders behind.
func TestLeftovers(t *testing.T) {
	p, dir := launch(t, Options{})
	if err := p.Crash(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a second launch", func() bool { return p.Launches() == 2 })
	p.Close()
	eventually(t, "nothing but the record", func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) == 1
	})
}

// TestTrap4HostileLogLine: the line is reported and the client lives on.
func TestTrap4HostileLogLine(t *testing.T) {
	p, _ := launch(t, Options{PluginConfig: map[string]any{"trouble": "log line"}})
	eventually(t, "the breach", func() bool { return hasBreach(p, TrapLogLine) })
	if _, err := p.Fingerprint(deadline(t)); err != nil {
		t.Error(err)
	}
}

// TestTrap24InheritedPipe: a child that holds the plugin's standard error is reported, and
// does not keep the client from noticing the plugin's end.
func TestTrap24InheritedPipe(t *testing.T) {
	p, dir := launch(t, Options{PluginConfig: map[string]any{"trouble": "inherited pipe"}})
	p.Close()
	if !hasBreach(p, TrapInheritedPipe) {
		t.Errorf("breaches: %v", p.Breaches())
	}
	data, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}
