package docker

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Invariant 1: from inside a sandbox, as root and as an ordinary user, nothing
// answers but its own sidecar: not the host on any of its addresses, not its
// bridges, not another sandbox (of the same allocation too: there is no network
// but a run's own) or its sidecar, not the metadata service, not over UDP, not
// in fragments, not over IPv6.
func TestInvariant1NothingButTheSidecar(t *testing.T) {
	eachNetwork(t, func(t *testing.T, rt string, w *world) { w.testNothingButTheSidecar(t, rt) })
}

func (w *world) testNothingButTheSidecar(t *testing.T, rt string) {
	port := hostService(t)
	other := specFor(t, rt)
	other.Task.Argv = []string{"/.wardyn/wardyn-rec", "listen", "tcp:0.0.0.0:7777", "udp:0.0.0.0:7777"}
	w.startedSandbox(t, other)
	spec := specFor(t, rt)
	ref := w.startedSandbox(t, spec)
	own := w.sidecarAddress(t, spec.RunID)
	shut := w.shutTo(t, spec, other, port)
	open := fmt.Sprintf("tcp:%s:3128", own)
	for _, user := range []string{"0:0", "1000:1000"} {
		// What is open decides how long the rest has, so nobody is too slow for it.
		got := w.netprobeFor(t, ref, user, []string{recorderTarget, "netprobe", "-timeout", testenv.Patience.String(), "-settle", "2s"},
			append([]string{open}, shut...)...)
		for _, target := range shut {
			if got[target].Reached {
				t.Errorf("user %s reached %s: %s", user, target, got[target].Detail)
			}
		}
		if !got[open].Reached || got[open].Detail != "connected" {
			t.Errorf("user %s: the sidecar is not reached: %s", user, got[open].Detail)
		}
	}
}

// shutTo are the places that a sandbox must not reach; port is a service's on
// every address of the host, other a sandbox beside it.
func (w *world) shutTo(t *testing.T, spec, other runner.SandboxSpec, port uint16) (shut []string) {
	t.Helper()
	own := w.sidecarAddress(t, spec.RunID)
	neighbourProxy := w.sidecarAddress(t, other.RunID)
	neighbour := netpool.PlanOf(netip.PrefixFrom(neighbourProxy, 29)).Agent
	egressID := w.netID(t, w.EgressNetworkName())
	hosts, err := netpool.HostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range hosts {
		if a.Is4() && !a.IsLoopback() {
			shut = append(shut, allWays(a, port)...)
		}
	}
	shut = append(shut, allWays(netpool.PlanOf(netip.PrefixFrom(own, 29)).Gateway, port)...)
	shut = append(shut, allWays(neighbour, 7777)...)
	shut = append(shut, allWays(neighbourProxy, 3128)...)
	for _, s := range []runner.SandboxSpec{spec, other} {
		shut = append(shut, allWays(w.address(t, ProxyName(w.nameOf(t, s.RunID)), egressID), 3128)...)
	}
	shut = append(shut, "tcp:169.254.169.254:80", "udp:192.0.2.99:53", "tcp:[fd00::2]:80")
	ll := bridgeLinkLocal(bridgeName(w.networkOf(t, spec.RunID), nil))
	return append(shut, fmt.Sprintf("tcp6ll:[%s]:%d", ll, port))
}

// Invariant 1: the host takes nothing from a sandbox's network, although a
// service of its own listens on every address: neither broadcast nor multicast,
// nor, under gVisor, what a process sends that gave itself an address of the
// host's network (in a user namespace it may). What it takes with the bridge's
// guards off is in TestWithoutTheEnginesFirewall.
func TestInvariant1HostHearsNothing(t *testing.T) {
	eachNetwork(t, func(t *testing.T, rt string, w *world) {
		if n, _ := w.heard(t, rt, true); n > 0 {
			t.Errorf("the host heard %d datagrams", n)
		}
	})
}

// heard counts what a service of the host receives of what a new sandbox sends
// it in every way there is, and how much of that its kernel sent at all.
func (w *world) heard(t *testing.T, rt string, guards bool) (n, sent int) {
	t.Helper()
	service, err := net.ListenPacket("udp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	spec := specFor(t, rt)
	ref := w.startedSandbox(t, spec)
	if !guards {
		conf := "/proc/sys/net/ipv4/conf/" + bridgeName(w.networkOf(t, spec.RunID), nil)
		for _, guard := range []string{"/rp_filter", "/arp_ignore"} {
			if err := os.WriteFile(conf+guard, []byte("0"), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	port := service.LocalAddr().(*net.UDPAddr).Port
	var targets []string
	for _, kind := range []string{"udp", "frag"} {
		targets = append(targets, fmt.Sprintf("%s:255.255.255.255:%d", kind, port), fmt.Sprintf("%s:224.0.0.1:%d", kind, port))
	}
	if rt != "runc" {
		targets = append(targets, fmt.Sprintf("udp:%s:%d", w.joinHostNetwork(t, ref), port))
	}
	for target, res := range w.netprobe(t, ref, recorderTarget, targets...) {
		switch {
		case res.Reached, res.Detail == "no answer":
			sent += 2 // the probe sends all twice
		default: // without a route there is none for multicasts
			t.Logf("%s: %s", target, res.Detail)
		}
	}
	patience := 100 * time.Millisecond // the probe has waited already
	if !guards {
		patience = testenv.Patience // for what is known to be on its way
	}
	service.SetReadDeadline(time.Now().Add(patience))
	for guards || n < sent {
		b := make([]byte, 64)
		size, _, err := service.ReadFrom(b)
		if err != nil {
			return n, sent
		}
		if strings.HasPrefix(string(b[:size]), "wardyn-rec") {
			n++
		}
	}
	return n, sent
}

// asRoot runs the machine's ip in a user namespace of a sandbox under gVisor.
// It goes past wardyn-rec and hence its filter, as if that had a hole.
func (w *world) asRoot(t *testing.T, ref string, args ...string) {
	t.Helper()
	program, err := os.ReadFile(testenv.Build(t, "./runner/docker/testdata/joinnet"))
	if err != nil {
		t.Fatal(err)
	}
	x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: sh("cat >/home/agent/joinnet && chmod +x /home/agent/joinnet")})
	if err != nil {
		t.Fatal(err)
	}
	if res := drain(x, bytes.NewReader(program)); res.stdout+res.stderr != "" {
		t.Fatalf("deliver: %s%s", res.stdout, res.stderr)
	}
	if out := w.direct(t, ref, append([]string{"/home/agent/joinnet"}, args...)...); out != "" {
		t.Fatalf("ip %q: %s", args, out)
	}
}

// joinHostNetwork gives a sandbox under gVisor an address beside one of the
// host's, and returns the host's.
func (w *world) joinHostNetwork(t *testing.T, ref string) netip.Addr {
	t.Helper()
	hosts, err := netpool.HostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		if !host.Is4() || host.IsLoopback() {
			continue
		}
		w.asRoot(t, ref, "addr", "add", host.Next().String()+"/24", "dev", "eth0")
		return host
	}
	t.Skip("this host has no address but loopback")
	return netip.Addr{}
}

// K32: a read-only folder in memory cannot be written to, by root neither.
func TestK32ReadOnlyTmpfs(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt string) {
		w := newWorld(t)
		w.assumeWorks(t, classFor(rt), rt)
		spec := specFor(t, rt)
		spec.Task.User = "0:0"
		spec.Task.Tmpfs = []runner.Tmpfs{{Target: "/alloc/logs", SizeMiB: 1, Mode: 0o555, ReadOnly: true}}
		ref := w.startedSandbox(t, spec)
		x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: sh("touch /alloc/logs/x || echo refused")})
		if err != nil {
			t.Fatal(err)
		}
		if res := drain(x, nil); res.stdout != "refused\n" {
			t.Errorf("got %q, %q", res.stdout, res.stderr)
		}
	})
}

// K16: the sidecar answers on its run leg only; on the egress leg neither the
// host nor a neighbour finds it. A sidecar that listens everywhere is found by
// the host, and without enable_icc=false by its neighbours.
func TestK16SidecarRunLegOnly(t *testing.T) {
	w := newWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	spec := specFor(t, "runc")
	w.sandbox(t, spec)
	egressID := w.netID(t, w.EgressNetworkName())
	dial := func(spec runner.SandboxSpec, patience time.Duration) error {
		addr := netip.AddrPortFrom(w.address(t, ProxyName(w.nameOf(t, spec.RunID)), egressID), 3128).String()
		c, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			return err
		}
		c.Close()
		return nil
	}
	if err := dial(spec, 3*time.Second); err == nil {
		t.Error("the host reaches the sidecar over the egress leg")
	}

	w.control.listen = "0.0.0.0"
	wide := specFor(t, "runc")
	w.sandbox(t, wide)
	if err := dial(wide, testenv.Patience); err != nil {
		t.Errorf("without the guard the host does not reach it: %v", err)
	}
	target := "tcp:" + netip.AddrPortFrom(w.address(t, ProxyName(wide.RunID), egressID), 3128).String()
	if res := w.netprobe(t, ProxyName(spec.RunID), "/wardyn-rec", target)[target]; res.Reached {
		t.Errorf("a neighbour's sidecar is reached over the egress network: %s", res.Detail)
	}
}

// R30: no capability, no new privileges, a filter on system calls. S23: no IPv6.
func TestR30ProcessStatus(t *testing.T) {
	w := newWorld(t)
	w.assumeWorks(t, classFor("runc"), "runc")
	spec := specFor(t, "runc")
	spec.Task.User = "0:0"
	ref := w.startedSandbox(t, spec)
	x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: sh("cat /proc/self/status /proc/net/if_inet6; cat /proc/sys/net/ipv6/conf/all/disable_ipv6; touch /etc/hosts || echo read-only")})
	if err != nil {
		t.Fatal(err)
	}
	res := drain(x, nil)
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "\n1\nread-only\n"} {
		if !strings.Contains(res.stdout, want) {
			t.Errorf("%q is missing in\n%s%s", want, res.stdout, res.stderr)
		}
	}
	if strings.Contains(res.stdout, "eth0") {
		t.Errorf("an IPv6 address:\n%s", res.stdout)
	}
}

// D-3, K15: the sandbox's names come from its own files and its sidecar, and
// what asks the engine's resolver directly asks the sidecar all the same.
func TestK15NamesComeFromTheSidecar(t *testing.T) {
	eachNetwork(t, func(t *testing.T, rt string, w *world) {
		spec := specFor(t, rt)
		ref := w.startedSandbox(t, spec)
		own := w.sidecarAddress(t, spec.RunID).String()
		x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: sh("cat /etc/resolv.conf; nslookup one.example.com; ping -c1 -W1 wardyn-proxy | head -1")})
		if err != nil {
			t.Fatal(err)
		}
		out := drain(x, nil).stdout
		if !strings.HasPrefix(out, "nameserver "+own+"\n") || strings.Count(out, own) < 3 {
			t.Errorf("want every name to be %s:\n%s", own, out)
		}
		asked := func(name string) bool { // the engine writes its log when it gets to it
			return strings.Contains(w.logOf(t, ProxyName(w.nameOf(t, spec.RunID))), name)
		}
		testenv.Eventually(t, "the sidecar is asked as the sandbox's name server", func() bool { return asked(`one\aexample`) })
		if rt != "runc" { // gVisor does not reach the engine's resolver at all
			return
		}
		testenv.Eventually(t, "the sidecar is asked by the engine's resolver", func() bool {
			w.netprobe(t, ref, recorderTarget, "dns:127.0.0.11:two.example.com")
			return asked(`two\aexample`)
		})
	})
}
