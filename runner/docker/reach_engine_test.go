package docker

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// hostService answers TCP and UDP on one port of every address of the host.
func hostService(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	u, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	go func() {
		buf := make([]byte, 8<<10)
		for {
			n, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			u.WriteTo(buf[:n], from)
		}
	}()
	return uint16(port)
}

// netprobe runs the recorder's own network probe in a running container, on
// targets that should be silent.
func (w *world) netprobe(t *testing.T, id, binary string, targets ...string) map[string]netResult {
	t.Helper()
	return w.netprobeFor(t, id, "", []string{binary, "netprobe", "-timeout", "2s"}, targets...)
}

// reached is netprobe on targets that should all answer, and have all the time
// they need for it.
func (w *world) reached(t *testing.T, id string, targets ...string) map[string]netResult {
	t.Helper()
	return w.netprobeFor(t, id, "", []string{recorderTarget, "netprobe", "-timeout", testenv.Patience.String()}, targets...)
}

// netprobeFor runs a probe as a user, "" being the container's.
func (w *world) netprobeFor(t *testing.T, id, user string, program []string, targets ...string) map[string]netResult {
	t.Helper()
	out := w.directAs(t, id, user, append(program, targets...)...)
	results, err := parseResults(out)
	if err != nil || len(results) != len(targets) {
		t.Fatalf("netprobe: %v, %q", err, out)
	}
	got := make(map[string]netResult)
	for _, r := range results {
		got[r.Target] = r
	}
	return got
}

// direct runs argv in a running container by the engine's own exec, and
// returns what it printed on either stream.
func (w *world) direct(t *testing.T, id string, argv ...string) string {
	t.Helper()
	return w.directAs(t, id, "", argv...)
}

// directAs is direct as another user than the container's.
func (w *world) directAs(t *testing.T, id, user string, argv ...string) string {
	t.Helper()
	x, err := w.cl.ContainerExecCreate(t.Context(), id, container.ExecOptions{User: user, Cmd: argv, AttachStdout: true, AttachStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := w.cl.ContainerExecAttach(t.Context(), x.ID, container.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	// What runs has its own patience; an engine that never ends the stream has none.
	late := time.AfterFunc(2*testenv.Patience, h.Close)
	defer late.Stop()
	var out strings.Builder
	if _, err := stdcopy.StdCopy(&out, &out, h.Reader); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// logOf is the engine's log of a container's stdout, as far as it is written.
func (w *world) logOf(t *testing.T, id string) string {
	t.Helper()
	rc, err := w.cl.ContainerLogs(t.Context(), id, container.LogsOptions{ShowStdout: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	var out strings.Builder
	if _, err := stdcopy.StdCopy(&out, io.Discard, rc); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// startedSandbox is a sandbox whose task runs.
func (w *world) startedSandbox(t *testing.T, spec runner.SandboxSpec) string {
	t.Helper()
	ref := w.sandbox(t, spec)
	if _, err := w.Exec(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	return ref
}

// awaitProgram waits until a program runs in a sandbox whose task is to start
// it. A signal that comes before pid 1 listens ends it with a code of its own.
func (w *world) awaitProgram(t *testing.T, ref, name string) {
	t.Helper()
	testenv.Eventually(t, name+" runs", func() bool { return w.direct(t, ref, "pidof", name) != "" })
}

// address is a container's address on a network.
func (w *world) address(t *testing.T, name, networkName string) netip.Addr {
	t.Helper()
	c, err := w.cl.ContainerInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for n, e := range c.NetworkSettings.Networks {
		if n == networkName || e.NetworkID == networkName {
			return netip.MustParseAddr(e.IPAddress)
		}
	}
	t.Fatalf("%s is not on %s: %v", name, networkName, c.NetworkSettings.Networks)
	return netip.Addr{}
}

func (w *world) netID(t *testing.T, name string) string {
	t.Helper()
	n, err := w.cl.NetworkInspect(t.Context(), name, network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.ID
}

// allWays are the targets of one place: TCP, UDP, and UDP in fragments.
func allWays(a netip.Addr, port uint16) []string {
	ap := netip.AddrPortFrom(a, port).String()
	return []string{"tcp:" + ap, "udp:" + ap, "frag:" + ap}
}
