package host

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// attended is a run that somebody looks at while it is under way.
type attended struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has

	mu   sync.Mutex
	said bytes.Buffer // both streams
}

// attend starts "nomad-driver-wardyn run args...". It ends, and leaves nothing,
// with the test.
func attend(t *testing.T, args ...string) *attended {
	t.Helper()
	a := &attended{ended: make(chan struct{})}
	a.cmd = exec.Command(testenv.Driver(t), append([]string{"run", "-plugin-config", pluginConfig(t)}, args...)...)
	leavesNothing(t, a.cmd)
	a.cmd.Stdout, a.cmd.Stderr = a, a
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(a.ended)
		_ = a.cmd.Wait() // its exit code is looked at
	}()
	t.Cleanup(func() { a.stop(t) })
	return a
}

func (a *attended) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.said.Write(b)
}

func (a *attended) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.said.String()
}

// until waits until the run has said something.
func (a *attended) until(t *testing.T, text string) {
	t.Helper()
	a.Eventually(t, "the run says "+text, func() bool { return strings.Contains(a.String(), text) })
}

// Eventually is testenv's, and shows what a run said that did not get there.
func (a *attended) Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testenv.Patience); !ok(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-a.ended:
			if ok() {
				return
			}
			t.Fatalf("it ended before: %s\n%s", what, a)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("still not after %v: %s\n%s", testenv.Patience, what, a)
		}
	}
}

// stop interrupts the run and returns its exit code once it has ended.
func (a *attended) stop(t *testing.T) int {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-a.ended:
	case <-time.After(testenv.Patience):
		t.Errorf("the run does not end\n%s", a)
		_ = a.cmd.Process.Kill() // it may have ended by now
		<-a.ended
	}
	return a.cmd.ProcessState.ExitCode()
}
