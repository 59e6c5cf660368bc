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
)

// The test binary is the keeper process, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "keeper-process" {
		if err := Run(context.Background(), Options{Socket: os.Args[2], IdleExit: 300 * time.Millisecond}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "holder-process" {
		if err := Hold(context.Background(), Options{Socket: os.Args[2], IdleExit: 300 * time.Millisecond}); err != nil {
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
		must(t, w.Finish(context.Background(), w.task, 0))
		w.Close()
		left := leftBy(dir)
		for range 200 { // idle, the keeper ends by itself: its lock goes last
			if len(left) == 0 {
				break
			}
			time.Sleep(50 * time.Millisecond)
			left = leftBy(dir)
		}
		if len(left) > 0 {
			t.Errorf("left behind: %s", left)
		}
		os.RemoveAll(dir)
	})
	return w
}

// clientOf is a client whose keeper and holder are this test binary.
func clientOf(sock string) *Client {
	return &Client{
		Socket: sock, Command: []string{os.Args[0], "keeper-process", sock},
		Holder: []string{os.Args[0], "holder-process", HolderSocket(sock)}, Log: slog.New(slog.DiscardHandler),
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
	for {
		pos, err := ReadPosition(w.task.Position)
		if err == nil && pos[stdout].Delivered == n {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("delivered %d bytes, want %d", pos[stdout].Delivered, n)
		}
		time.Sleep(5 * time.Millisecond)
	}
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
