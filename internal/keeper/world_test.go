package keeper

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// The test binary is the keeper process, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && (os.Args[1] == "keeper-process" || os.Args[1] == "holder-process") {
		serve := Run
		if os.Args[1] == "holder-process" {
			serve = Hold
		}
		idle, err := time.ParseDuration(os.Args[3])
		if err == nil {
			err = serve(context.Background(), Options{Socket: os.Args[2], IdleExit: idle})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 6 && os.Args[1] == "plugin-process" {
		fmt.Fprintln(os.Stderr, pluginProcess(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// world is a keeper's surroundings: a client, two FIFOs, a main process.
type world struct {
	*Client
	task Task
	proc *process
}

func newWorld(t *testing.T) *world {
	dir, err := os.MkdirTemp("", "keep") // short: a socket's path is bounded
	must(t, err)
	w := &world{proc: &process{}}
	sock := filepath.Join(dir, "k.sock")
	w.Client = clientOf(sock)
	w.task = Task{ID: "t", Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err"), Position: filepath.Join(dir, "pos")}
	must(t, unix.Mkfifo(w.task.Stdout, 0o600))
	must(t, unix.Mkfifo(w.task.Stderr, 0o600))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
		defer cancel()
		must(t, w.Finish(ctx, w.task, 0))
		w.Close()
		must(t, w.Quit(ctx))
		if left := leftBy(dir); len(left) > 0 {
			t.Errorf("left behind: %s", left)
		}
		os.RemoveAll(dir)
	})
	return w
}

// clientOf is a client whose keeper and holder are this test binary. They are
// never idle for long enough to end while a test goes on, however slow.
func clientOf(sock string) *Client { return idlingClientOf(sock, 4*testenv.Patience) }

func idlingClientOf(sock string, idle time.Duration) *Client {
	return &Client{
		Socket: sock, Command: []string{os.Args[0], "keeper-process", sock, idle.String()},
		Holder: []string{os.Args[0], "holder-process", HolderSocket(sock), idle.String()}, Log: slog.New(slog.DiscardHandler),
	}
}

// leftBy names what a keeper left beside the FIFOs, which are the client's.
func leftBy(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if n := e.Name(); n != "out" && n != "err" {
			names = append(names, n)
		}
	}
	return names
}

func (w *world) follow(t *testing.T) {
	t.Helper()
	o, err := w.proc.AttachOutput(t.Context(), "")
	must(t, err)
	must(t, w.Sink(w.task).Follow(t.Context(), "", o))
}

// delivered waits until so many bytes of stdout are.
func (w *world) delivered(t *testing.T, n int64) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprintf("%d bytes are delivered", n), func() bool {
		pos, err := ReadPosition(w.task.Position)
		return err == nil && pos[stdout].Delivered == n
	})
}

// collect reads a FIFO to its end, as a log collector does.
func collect(t *testing.T, path string) <-chan string {
	t.Helper()
	out := make(chan string, 1)
	go func() {
		f, err := os.Open(path)
		if err != nil {
			out <- err.Error()
			return
		}
		defer f.Close()
		b, _ := io.ReadAll(f)
		out <- string(b)
	}()
	return out
}

// whole is all that a collector has read, at the end of its FIFO.
func whole(t *testing.T, collected <-chan string) string {
	t.Helper()
	return testenv.Await(t, "the end of the log", collected)
}

func killProcess(t *testing.T, role, socket string) {
	t.Helper()
	out, err := exec.Command("pgrep", "-f", role+" "+socket).Output()
	must(t, err)
	for pid := range strings.FieldsSeq(string(out)) {
		var n int
		fmt.Sscan(pid, &n)
		must(t, syscall.Kill(n, syscall.SIGKILL))
	}
}

// kill ends the keeper at socket with SIGKILL.
func kill(t *testing.T, socket string) { killProcess(t, "keeper-process", socket) }

// peer is the process that serves a socket.
func peer(t *testing.T, socket string) int32 {
	c, err := net.Dial("unixpacket", socket)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return 0
	}
	var cred *unix.Ucred
	raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil {
		t.Error(err)
		return 0
	}
	return cred.Pid
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
