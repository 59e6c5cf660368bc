package rec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// recPath is the program under test, built once.
var recPath string

// dirtyEnv makes this test binary a bad parent: see beDirty.
const dirtyEnv = "WARDYN_TEST_DIRTY"

func TestMain(m *testing.M) {
	if os.Getenv(dirtyEnv) != "" {
		beDirty(os.Args[1:])
	}
	if os.Getenv(attackEnv) != "" {
		attack()
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rec")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	recPath = filepath.Join(dir, "wardyn-rec")
	build := exec.Command("go", "build", "-o", recPath, "../../cmd/wardyn-rec")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// beDirty becomes argv with signals ignored and blocked, and a descriptor open.
func beDirty(argv []string) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGTSTP, syscall.SIGTTOU, syscall.Signal(40))
	runtime.LockOSThread()
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil)
	unix.Open("/etc/passwd", unix.O_RDONLY, 0) // without close-on-exec
	os.Unsetenv(dirtyEnv)
	fmt.Fprintln(os.Stderr, syscall.Exec(argv[0], argv, os.Environ()))
	os.Exit(99)
}

// testCtx bounds what a test starts: a hang is a failure with a place.
func testCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

// wardynRec is a command line of the program under test.
func wardynRec(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(testCtx(t), recPath, args...)
	cmd.WaitDelay = time.Minute
	return cmd
}

// asPID1 is the same in a pid namespace of its own, as real pid 1: what it
// leaves behind dies with it.
func asPID1(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a pid namespace needs root")
	}
	cmd := exec.CommandContext(testCtx(t), "unshare", append([]string{"-pf", "--mount-proc", "--kill-child", recPath}, args...)...)
	cmd.WaitDelay = time.Minute
	return cmd
}

// code is the exit code of a finished command.
func code(t *testing.T, err error) int {
	t.Helper()
	var ee *exec.ExitError
	if err == nil {
		return 0
	}
	if !errors.As(err, &ee) {
		t.Fatal(err)
	}
	if ws := ee.Sys().(syscall.WaitStatus); ws.Signaled() {
		t.Fatalf("wardyn-rec itself died of %v; stderr %s", ws.Signal(), ee.Stderr)
	}
	return ee.ExitCode()
}

// lines reads output of a running command line by line.
type lines struct {
	t *testing.T
	c chan string
}

func readLines(t *testing.T, cmd *exec.Cmd) lines {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	l := lines{t, make(chan string, 1000)}
	go func() {
		defer close(l.c)
		defer r.Close()
		var rest []byte
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			rest = append(rest, buf[:n]...)
			for i := bytes.IndexByte(rest, '\n'); i >= 0; i = bytes.IndexByte(rest, '\n') {
				l.c <- string(rest[:i])
				rest = rest[i+1:]
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

// want waits for the next line and compares it.
func (l lines) want(text string) {
	l.t.Helper()
	select {
	case got, ok := <-l.c:
		if !ok || got != text {
			l.t.Fatalf("line %q (more: %v), want %q", got, ok, text)
		}
	case <-time.After(testenv.Patience):
		l.t.Fatalf("no line, want %q", text)
	}
}

// eventually waits for what another process brings about.
var eventually = testenv.Eventually

// marked is a command line for a background process that no other has; what is
// left of it at the end is killed.
func marked(t *testing.T, n int) string {
	argv := fmt.Sprintf("sleep %d.%d", n, os.Getpid())
	t.Cleanup(func() {
		for _, pid := range pidsOf(argv) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return argv
}

func running(argv string) int { return len(pidsOf(argv)) }

// pidsOf finds the processes of exactly that command line.
func pidsOf(argv string) (pids []int) {
	table, _ := processes()
	for _, p := range table {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if p.state != 'Z' && strings.ReplaceAll(strings.TrimSuffix(string(b), "\x00"), "\x00", " ") == argv {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func children(pid int) (pids []int) {
	table, _ := processes()
	for _, p := range table {
		if p.parent == pid {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// childOf is the only child of pid, once it is there.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	var all []int
	eventually(t, fmt.Sprintf("a child of %d", pid), func() bool {
		all = children(pid)
		return len(all) == 1
	})
	return all[0]
}
