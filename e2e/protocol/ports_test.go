package protocol

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestK18Ports: a task's ports are served by its sidecar and nobody else, over
// TCP and UDP, while the plugin dies and after the sidecar did.
func TestK18Ports(t *testing.T) {
	r := newRig(t)
	each(t, func(t *testing.T, class string) {
		at := testenv.Loopback(t)
		w := r.start(t, class, "exec /.wardyn/wardyn-rec listen tcp:0.0.0.0:7777 udp:0.0.0.0:7777", func(s *host.TaskSpec) {
			s.Config["ports"] = []any{"echo"}
			s.Resources.Ports = []host.Port{{Label: "echo", Value: int32(at.Port()), To: 7777, HostIP: at.Addr().String()}}
		})
		eventually(t, "the task listens", func() bool { return w.out.has("listening udp") })
		served(t, at)
		for _, c := range w.containers(t) {
			if len(c.Ports) > 0 {
				t.Errorf("the engine publishes %v", c.Ports)
			}
		}
		eventually(t, "records of the flows", func() bool {
			b, _ := os.ReadFile(filepath.Join(w.Dir().Dir, "wardyn", "decisions.jsonl"))
			return strings.Contains(string(b), `"direction":"inbound","scheme":"tcp","host":"127.0.0.1"`) &&
				strings.Contains(string(b), `"direction":"inbound","scheme":"udp"`) && strings.Contains(string(b), `"policy:port"`)
		})

		t.Run("plugin killed", func(t *testing.T) {
			syscall.Kill(r.Pid(), syscall.SIGKILL)
			served(t, at)
			eventually(t, "the plugin is back", func() bool {
				_, err := r.InspectTask(deadline(t), w.ID())
				return err == nil
			})
			served(t, at)
		})
		t.Run("sidecar replaced", func(t *testing.T) {
			id := w.containers(t)["proxy"].ID // whoever kills it, the driver makes another
			if err := r.engine.ContainerKill(deadline(t), id, "KILL"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the port is served again", func() bool { return greeting("tcp", at) == nil && greeting("udp", at) == nil })
		})
		if err := r.DestroyTask(deadline(t), w.ID(), true); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", at.String())
		if err != nil {
			t.Errorf("a destroyed task's port is not free: %v", err)
		} else {
			l.Close()
		}
	})
	t.Run("address in use", r.addressInUse)
}

// A port that somebody else has is a passing trouble, named, and nothing is left.
func (r *rig) addressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := r.prepare(t, "CC1", "true", func(s *host.TaskSpec) {
		s.Config["ports"] = []any{"taken"}
		s.Resources.Ports = []host.Port{{Label: "taken", Value: int32(l.Addr().(*net.TCPAddr).Port), HostIP: "127.0.0.1"}}
	})
	err = w.Start(deadline(t))
	if err == nil || !strings.Contains(err.Error(), `port "taken", tcp 127.0.0.1:`) || !strings.Contains(err.Error(), "in use") || !host.IsRecoverable(err) {
		t.Errorf("start: %v (recoverable %v)", err, host.IsRecoverable(err))
	}
}

// served checks that the task answers on both networks.
func served(t *testing.T, at netip.AddrPort) {
	t.Helper()
	for _, network := range []string{"tcp", "udp"} {
		if err := greeting(network, at); err != nil {
			t.Errorf("%s: %v", network, err)
		}
	}
}

// greeting asks the task for its greeting.
func greeting(network string, at netip.AddrPort) error {
	c, err := net.Dial(network, at.String())
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	if network == "udp" {
		if _, err := io.WriteString(c, "hello"); err != nil {
			return err
		}
	}
	b := make([]byte, 64)
	n, err := c.Read(b)
	if err == nil && string(b[:n]) != "wardyn-rec\n" {
		err = fmt.Errorf("the answer is %q", b[:n])
	}
	return err
}
