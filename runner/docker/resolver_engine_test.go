package docker

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
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
	e := testenv.StartEngine(t, testenv.EngineOptions{ResolvConf: "nameserver 127.0.0.1\n"})
	h := &loopbackHost{}
	h.listen(t, e.PID)
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
	res := w.reached(t, id, "dns:127.0.0.11:loose.example.com")
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
