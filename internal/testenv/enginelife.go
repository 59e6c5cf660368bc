package testenv

import (
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

// openNamespaces makes the namespaces, by a process that holds them, and returns
// when that process is in them for certain: an engine that is started too early
// would rewrite the machine's own rules. An engine with a resolv.conf of its own
// has a mount namespace as well.
func (e *PrivateEngine) openNamespaces(t testing.TB, resolv string) {
	t.Helper()
	args, script := []string{"--net"}, "set -e\n"
	if e.mounts = resolv != ""; e.mounts {
		file := filepath.Join(e.dir, "resolv.conf")
		must(t, os.WriteFile(file, []byte(resolv), 0o644))
		args = append(args, "--mount")
		script += "mount --make-rprivate /\nmount --bind " + file + " /etc/resolv.conf\n"
	}
	script += "ip link set lo up\necho ready\nexec sleep 100000"
	e.holder = exec.Command("unshare", append(args, "sh", "-c", script)...)
	out, err := e.holder.StdoutPipe()
	must(t, err)
	must(t, e.holder.Start())
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("no namespaces for a private engine: %v", err)
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	if theirs, err := os.Readlink(e.nsPath("net")); err != nil || theirs == ours {
		t.Fatalf("no network namespace for a private engine: %s, %v", theirs, err)
	}
}

func (e *PrivateEngine) nsPath(kind string) string {
	return fmt.Sprintf("/proc/%d/ns/%s", e.holder.Process.Pid, kind)
}

// enter is what nsenter needs to know to get into the namespaces.
func (e *PrivateEngine) enter() []string {
	args := []string{"--net=" + e.nsPath("net")}
	if e.mounts {
		args = append(args, "--mount="+e.nsPath("mnt"))
	}
	return args
}

// Kill ends the engine with SIGKILL, and its containerd. Containers run on,
// unattended.
func (e *PrivateEngine) Kill(t testing.TB) {
	t.Helper()
	must(t, e.cmd.Process.Kill())
	<-e.ended
	e.endContainerd()
}

// remove ends the engine, with its containers, and removes all it had.
func (e *PrivateEngine) remove(t testing.TB) {
	if e.ended != nil {
		select {
		case <-e.ended:
			if e.up {
				e.Start(t) // only an engine ends what one has left
			}
		default:
		}
		e.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-e.ended:
		case <-time.After(Patience):
			e.cmd.Process.Kill()
			<-e.ended
			t.Error("the private engine did not end")
		}
	}
	e.endContainerd()
	if e.holder != nil && e.holder.Process != nil {
		e.holder.Process.Kill()
		e.holder.Wait()
	}
	UnmountBelow(e.dir)
	if err := os.RemoveAll(e.dir); err != nil {
		t.Error(err)
	}
}

// endContainerd ends the engine's own, if one is left. With its pid file: the
// next engine would wait for a process that has ended and that nobody reaps.
func (e *PrivateEngine) endContainerd() {
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
