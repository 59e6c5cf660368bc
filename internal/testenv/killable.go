package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// KillableEngine is a Docker engine of the test's own, in a network namespace of
// its own, that may be killed and started again. It restores no containers
// (live-restore is off): what runs when it dies it ends when it comes back.
type KillableEngine struct {
	Endpoint string
	dir      string
	netns    *exec.Cmd // holds the network namespace
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd has
}

// NewKillableEngine starts the engine and makes it the one under test.
func NewKillableEngine(t testing.TB) *KillableEngine {
	t.Helper()
	for _, tool := range []string{"dockerd", "unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "docker", "a private engine needs "+tool)
		}
	}
	if os.Geteuid() != 0 {
		missing(t, "docker", "a private engine needs root")
	}
	dir, err := os.MkdirTemp("", "wardyn-engine-") // short, since a socket's path is limited
	must(t, err)
	e := &KillableEngine{dir: dir, Endpoint: "unix://" + filepath.Join(dir, "sock")}
	must(t, os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}"), 0o600))
	t.Cleanup(func() { e.remove(t) })
	e.openNetns(t)
	e.Start(t)
	t.(interface{ Setenv(key, value string) }).Setenv("DOCKER_HOST", e.Endpoint)
	return e
}

// openNetns makes the network namespace, by a process that holds it, and returns
// when that process is in it for certain: an engine that is started too early
// would rewrite the machine's own rules.
func (e *KillableEngine) openNetns(t testing.TB) {
	t.Helper()
	e.netns = exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep 100000")
	out, err := e.netns.StdoutPipe()
	must(t, err)
	must(t, e.netns.Start())
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("no network namespace for a private engine: %v", err)
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	if theirs, err := os.Readlink(e.netnsPath()); err != nil || theirs == ours {
		t.Fatalf("no network namespace for a private engine: %s, %v", theirs, err)
	}
}

func (e *KillableEngine) netnsPath() string {
	return fmt.Sprintf("/proc/%d/ns/net", e.netns.Process.Pid)
}

// Start starts the engine's process, again after Kill, and waits until it
// answers.
func (e *KillableEngine) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer log.Close()
	e.cmd = exec.Command("nsenter", "--net="+e.netnsPath(),
		"dockerd", "--config-file", filepath.Join(e.dir, "daemon.json"), "--data-root", filepath.Join(e.dir, "data"),
		"--exec-root", filepath.Join(e.dir, "exec"), "--pidfile", filepath.Join(e.dir, "pid"), "-H", e.Endpoint,
		"--containerd-namespace", e.namespace(), "--containerd-plugins-namespace", e.namespace()+"-plugins")
	e.cmd.Stdout, e.cmd.Stderr = log, log
	must(t, e.cmd.Start())
	e.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { cmd.Wait(); close(ended) }(e.cmd, e.ended)
	for range 600 {
		if e.answers(t) {
			return
		}
		select {
		case <-e.ended:
			b, _ := os.ReadFile(log.Name())
			t.Fatalf("the private engine ended:\n%s", b)
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatal("the private engine does not answer")
}

// answers is stricter than a connect: the socket is there before the engine is,
// and it may not come up at all.
func (e *KillableEngine) answers(t testing.TB) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := Client(t, e.Endpoint).Ping(ctx)
	return err == nil
}

// namespace keeps apart from others' what a containerd of the machine has.
func (e *KillableEngine) namespace() string { return filepath.Base(e.dir) }

// Kill ends the engine with SIGKILL, and its containerd. Containers run on,
// unattended.
func (e *KillableEngine) Kill(t testing.TB) {
	t.Helper()
	must(t, e.cmd.Process.Kill())
	<-e.ended
	e.endContainerd()
}

// remove ends the engine, with its containers, and removes all it had.
func (e *KillableEngine) remove(t testing.TB) {
	if e.cmd != nil {
		select {
		case <-e.ended:
			e.Start(t) // only an engine ends what one has left
		default:
		}
		e.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-e.ended:
		case <-time.After(60 * time.Second):
			e.cmd.Process.Kill()
			<-e.ended
			t.Error("the private engine did not end")
		}
	}
	e.endContainerd()
	if e.netns != nil && e.netns.Process != nil {
		e.netns.Process.Kill()
		e.netns.Wait()
	}
	unmountBelow(e.dir)
	if err := os.RemoveAll(e.dir); err != nil {
		t.Error(err)
	}
}

// endContainerd ends the engine's own, if one is left. With its pid file: the
// next engine would wait for a process that has ended and that nobody reaps.
func (e *KillableEngine) endContainerd() {
	file := filepath.Join(e.dir, "exec", "containerd", "containerd.pid")
	b, err := os.ReadFile(file)
	if err != nil {
		return // it ended with the engine
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	os.Remove(file)
}
