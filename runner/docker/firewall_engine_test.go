package docker

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// aloneEnv is set in a test process that has an engine and a network namespace
// to itself.
const aloneEnv = "WARDYN_TEST_ALONE"

// alone runs this test again in a process beside an engine of its own, of the
// same programs, and reports in which of the two it is.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(aloneEnv) != "" {
		return true
	}
	testenv.Engine(t) // or there is none, and a reason
	folder := os.Getenv("IN_ENGINE_FOLDER")
	if folder == "" {
		dockerd, err := exec.LookPath("dockerd")
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Dir(dockerd)
	}
	cmd := exec.CommandContext(t.Context(), "../../scripts/in-engine.sh", folder, os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "IN_ENGINE_NETNS=") }), aloneEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// openFirewall lets everything past the rules of the engine, and past those it
// may have added since: they stay, and nothing comes to them.
func openFirewall(t *testing.T) {
	t.Helper()
	for _, chain := range [][2]string{{"filter", "FORWARD"}, {"filter", "INPUT"}, {"raw", "PREROUTING"}} {
		cmd := exec.CommandContext(t.Context(), "iptables", "-w", "-t", chain[0], "-I", chain[1], "1", "-j", "ACCEPT")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", chain, err, out)
		}
	}
}

// What holds a sandbox in does not rest on the engine's firewall, which differs
// from engine to engine and which a reload of a host's own rules can empty. Here
// it lets everything through, so that each guard stands alone: with it nothing
// passes, and without it what it is there for does.
func TestWithoutTheEnginesFirewall(t *testing.T) {
	if !alone(t) {
		return
	}
	for _, rt := range testenv.Runtimes(t) {
		t.Run(rt, func(t *testing.T) {
			w := newWorld(t)
			w.assumeWorks(t, classFor(rt), rt)
			t.Run("invariant 1", func(t *testing.T) {
				openFirewall(t)
				w.testNothingButTheSidecar(t, rt)
			})
			t.Run("the host's ears", func(t *testing.T) { w.testHostsEars(t, rt) })
			t.Run("no router", func(t *testing.T) { w.testNoRouter(t, rt) })
		})
	}
	t.Run("neighbours", testNeighboursWithoutFirewall)
}

// testHostsEars: with the bridge's guards the host hears nothing, without them
// all that is sent.
func (w *world) testHostsEars(t *testing.T, rt string) {
	openFirewall(t)
	if n, _ := w.heard(t, rt, true); n > 0 {
		t.Errorf("the host heard %d datagrams", n)
	}
	if n, sent := w.heard(t, rt, false); n < sent || sent == 0 { // heard has waited for them
		t.Errorf("without the guards the host heard %d of %d datagrams, so this shows little", n, sent)
	}
}

// testNoRouter: a sidecar is no router (K16). Whoever writes a route through it
// into the sandbox's network namespace, or under gVisor into the sentry's own
// tables, gets nothing through; with ip_forward switched on in it everything.
func (w *world) testNoRouter(t *testing.T, rt string) {
	spec := specFor(t, rt)
	ref := w.startedSandbox(t, spec)
	openFirewall(t)
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
	port := service.LocalAddr().(*net.UDPAddr).Port
	arrived := func() bool {
		w.netprobe(t, ref, recorderTarget, fmt.Sprintf("udp:%s:%d", host, port), fmt.Sprintf("frag:%s:%d", host, port))
		service.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // the probe has waited already
		n, _, err := service.ReadFrom(make([]byte, 64))
		return err == nil && n > 0
	}
	if arrived() {
		t.Error("the sidecar forwards a packet to the host")
	}
	w.inNetns(t, sidecar, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
	testenv.Eventually(t, "something comes through a sidecar that does forward, or this shows nothing", arrived)
}

// K16, S15: where no firewall keeps sidecars apart, what is left is that they
// listen on no other leg and refuse the addresses of the egress network.
func testNeighboursWithoutFirewall(t *testing.T) {
	w, _ := newRealWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	one, two := specFor(t, "runc"), specFor(t, "runc")
	one.ProxyConfig.Policy.AllowAllEgress = true
	ref := w.startedSandbox(t, one)
	w.startedSandbox(t, two)
	openFirewall(t)
	neighbour := w.address(t, ProxyName(two.RunID), w.netID(t, w.EgressNetworkName()))
	target := "tcp:" + netip.AddrPortFrom(neighbour, runner.ProxyListenPort).String()
	res := w.netprobeFor(t, ProxyName(one.RunID), "", []string{"/wardyn-rec", "netprobe", "-timeout", testenv.Patience.String()}, target)[target]
	if res.Detail == "connected" {
		t.Errorf("a sidecar serves a neighbour: %s", res.Detail)
	}
	if !res.Reached {
		t.Errorf("the firewall still keeps sidecars apart, so this shows nothing: %s", res.Detail)
	}
	for _, port := range []int{80, runner.ProxyListenPort} {
		request := fmt.Sprintf(`printf 'GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\nConnection: close\r\n\r\n' | nc -w 60 wardyn-proxy 3128`,
			netip.AddrPortFrom(neighbour, uint16(port)))
		x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: sh(request)})
		if err != nil {
			t.Fatal(err)
		}
		if out := drain(x, nil).stdout; !strings.HasPrefix(out, "HTTP/1.1 403 ") {
			t.Errorf("a request for a neighbour's address: %q", out)
		}
	}
}

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
