package rec

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestK42GateHoldsTheCommandBack: not before the file has something in it, and
// a signal that would end the command ends the wait.
func TestK42GateHoldsTheCommandBack(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	if got := code(t, wardynRec(t, "init", "-gate", gate, "--", "true").Run()); got != exitNotExecutable {
		t.Errorf("no gate: exit %d", got)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	signalled := &signals{forward: make(chan os.Signal, 1), child: make(chan os.Signal)}
	signalled.forward <- syscall.SIGTERM
	if got, open := awaitGate(gate, signalled); got != 143 || open {
		t.Errorf("ended at the gate: exit %d, open %v", got, open)
	}
	mark := filepath.Join(t.TempDir(), "ran")
	cmd := wardynRec(t, "init", "-gate", gate, "--", "sh", "-c", ": >"+mark+"; exit 5")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran before the gate was open")
	}
	if err := os.WriteFile(gate, []byte("open\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := code(t, cmd.Wait()); got != 5 {
		t.Errorf("exit %d, want the command's 5", got)
	}
}
