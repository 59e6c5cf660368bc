package docker

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// inNetns runs a command on the host within a container's network namespace,
// as somebody who has every right in it would.
func (w *world) inNetns(t *testing.T, name string, argv ...string) string {
	t.Helper()
	c, err := w.cl.ContainerInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--net=/proc/" + strconv.Itoa(c.State.Pid) + "/ns/net"}, argv...)
	out, err := exec.CommandContext(t.Context(), "nsenter", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nsenter %q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// K16: a sidecar is no router. Whoever writes a route through it into the
// sandbox's network namespace, or under gVisor into the sentry's own tables,
// gets nothing through. Two guards hold that, and one of them is the engine's
// rule for internal networks, which a test cannot take away: so it is also
// looked at that ours is in place.
func TestK16SidecarIsNoRouter(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		spec := specFor(t, rt)
		ref := w.startedSandbox(t, spec)
		sidecar := ProxyName(spec.RunID)
		leg := w.address(t, sidecar, w.netID(t, NetworkName(spec.RunID)))
		host, err := w.EgressGateway(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		service, err := net.ListenPacket("udp4", ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		if rt == "runc" {
			w.inNetns(t, ref, "ip", "route", "replace", host.String()+"/32", "via", leg.String())
		} else {
			w.asRoot(t, ref, "route", "add", host.String()+"/32", "via", leg.String(), "dev", "eth0")
		}
		target := "udp:" + netip.AddrPortFrom(host, uint16(service.LocalAddr().(*net.UDPAddr).Port)).String()
		arrived := func() bool {
			w.netprobe(t, ref, recorderTarget, target)
			service.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			n, _, err := service.ReadFrom(make([]byte, 64))
			return err == nil && n > 0
		}
		if arrived() {
			t.Error("the sidecar forwards a packet to the host")
		}
		if got := w.inNetns(t, sidecar, "cat", "/proc/sys/net/ipv4/ip_forward"); got != "0\n" {
			t.Errorf("the sidecar's ip_forward is %q", got)
		}
	})
}

// K16, S15: on a host whose firewall does not see traffic within a bridge,
// sidecars are not kept apart by it. What is then left is that they listen on
// no other leg and refuse the addresses of the egress network.
func TestK16WithoutBridgeFilter(t *testing.T) {
	e := testenv.StartEngine(t, testenv.EngineOptions{})
	w, _ := newRealWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	one, two := specFor(t, "runc"), specFor(t, "runc")
	one.ProxyConfig.Policy.AllowAllEgress = true
	ref := w.startedSandbox(t, one)
	w.startedSandbox(t, two)
	// Now, since the engine switches it on with each such network.
	off := exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(e.PID)+"/ns/net", "sh", "-c", "echo 0 >/proc/sys/net/bridge/bridge-nf-call-iptables")
	if out, err := off.CombinedOutput(); err != nil {
		t.Skipf("this kernel has no bridge filter to switch off: %v %s", err, out)
	}
	neighbour := w.address(t, ProxyName(two.RunID), w.netID(t, w.EgressNetworkName()))
	target := "tcp:" + netip.AddrPortFrom(neighbour, runner.ProxyListenPort).String()
	res := w.netprobeFor(t, ProxyName(one.RunID), []string{"/wardyn-rec", "netprobe", "-timeout", testenv.Patience.String()}, target)[target]
	if res.Detail == "connected" {
		t.Errorf("a sidecar serves a neighbour: %s", res.Detail)
	}
	if !res.Reached {
		t.Errorf("the firewall still keeps sidecars apart, so this shows nothing: %s", res.Detail)
	}
	for _, port := range []int{80, runner.ProxyListenPort} {
		request := fmt.Sprintf(`printf 'GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\nConnection: close\r\n\r\n' | nc -w 60 wardyn-proxy 3128`,
			netip.AddrPortFrom(neighbour, uint16(port)))
		x, err := w.ExecStream(t.Context(), ref, runner.ExecSpec{Argv: sh(request)})
		if err != nil {
			t.Fatal(err)
		}
		if out := drain(x, nil).stdout; !strings.HasPrefix(out, "HTTP/1.1 403 ") {
			t.Errorf("a request for a neighbour's address: %q", out)
		}
	}
}
