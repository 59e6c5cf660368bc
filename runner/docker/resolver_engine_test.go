package docker

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// loopbackHost is an engine of the test's own whose host asks a resolver on
// loopback, as hosts with systemd-resolved do: engine and resolver share a
// network namespace, and the engine sees its own /etc/resolv.conf.
type loopbackHost struct {
	mu    sync.Mutex
	asked []string
}

// newLoopbackHost starts the engine and makes it the one under test.
func newLoopbackHost(t *testing.T) *loopbackHost {
	t.Helper()
	for _, tool := range []string{"dockerd", "unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: a private engine cannot be started", tool)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("a private engine needs root")
	}
	// Short, since a socket's path is limited to 107 bytes.
	dir, err := os.MkdirTemp("", "wardyn-engine-")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"resolv.conf": "nameserver 127.0.0.1\n", "daemon.json": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`set -e
mount --make-rprivate /
mount --bind %[1]s/resolv.conf /etc/resolv.conf
ip link set lo up
exec dockerd --config-file %[1]s/daemon.json --data-root %[1]s/data --exec-root %[1]s/exec --pidfile %[1]s/pid \
  -H unix://%[1]s/sock --containerd-namespace %[2]s --containerd-plugins-namespace %[2]s-plugins`,
		dir, "wardyn-test-"+uuid.NewString()[:8])
	cmd := exec.Command("unshare", "--net", "--mount", "sh", "-c", script)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
		log.Close()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, "private engine", func() bool {
		select {
		case <-ended:
			b, _ := os.ReadFile(log.Name())
			t.Fatalf("the private engine ended:\n%s", b)
		default:
		}
		c, err := net.Dial("unix", filepath.Join(dir, "sock"))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(dir, "sock"))
	h := &loopbackHost{}
	h.listen(t, cmd.Process.Pid)
	return h
}

// listen opens the resolver inside the engine's network namespace. The thread
// that enters it is not given back.
func (h *loopbackHost) listen(t *testing.T, pid int) {
	t.Helper()
	opened := make(chan error)
	var pc net.PacketConn
	go func() {
		runtime.LockOSThread()
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			pc, err = net.ListenPacket("udp", "127.0.0.1:53")
		}
		opened <- err
	}()
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			h.mu.Lock()
			h.asked = append(h.asked, string(buf[12:n]))
			h.mu.Unlock()
			buf[2], buf[3] = 0x81, 0x83 // there is no such name
			pc.WriteTo(buf[:n], from)
		}
	}()
}

func (h *loopbackHost) wasAsked(label string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.asked, "\n"), label)
}

// K15, S17: an old engine forwards its containers' queries to a resolver on the
// host's loopback, out of an internal network too. From a sandbox none gets
// there; without the guard it does.
func TestK15LoopbackResolverIsNeverAsked(t *testing.T) {
	h := newLoopbackHost(t)
	w := newWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	spec := specFor(t, "runc")
	ref := w.startedSandbox(t, spec)
	w.netprobe(t, ref, recorderTarget, "dns:127.0.0.11:guarded.example.com")
	if h.wasAsked("guarded") {
		t.Error("the host's resolver was asked for a sandbox's name")
	}
	if mustFacts(t, w.Runner).Major >= 23 {
		t.Log("this engine does not forward from internal networks; there is no guard to leave out")
		return
	}
	id, _ := w.bare(t, "runc", nil, func(c *containerConfig) { c.HostConfig.DNS = nil })
	res := w.netprobe(t, id, recorderTarget, "dns:127.0.0.11:loose.example.com")
	if !h.wasAsked("loose") {
		t.Errorf("without the guard the host's resolver was not asked: %v", res)
	}
	// What the probe behind StructuralEgress makes of it.
	for _, r := range res {
		if !leaks(r) {
			t.Errorf("the structural probe does not see it: %+v", r)
		}
	}
}
