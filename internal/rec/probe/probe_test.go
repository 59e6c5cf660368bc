package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// wrongEnv makes this binary, run as a child of Class, give a wrong answer.
const wrongEnv = "WARDYN_TEST_WRONG_CHILD"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ChildCommand:
			switch os.Getenv(wrongEnv) {
			case os.Args[2]:
				fmt.Println("0")
				os.Exit(0)
			case "die " + os.Args[2]:
				os.Exit(2)
			}
			os.Exit(Child(os.Args[2:], os.Stdout))
		case "netprobe":
			os.Exit(Net(os.Args[2:], os.Stdout, os.Stderr))
		case "listen":
			os.Exit(Listen(os.Args[2:], os.Stdout, os.Stderr))
		}
	}
	os.Exit(m.Run())
}

func TestK1ClassCountsRightAnswers(t *testing.T) {
	for env, right := range map[string]int{"": classProcesses, "17": classProcesses - 1, "die 63": classProcesses - 1} {
		t.Setenv(wrongEnv, env)
		var out bytes.Buffer
		code := Class(&out, &out)
		var r ClassReport
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		if r.Processes != classProcesses || r.Right != right || (code == 0) != (env == "") || (r.Fault == "") != (env == "") {
			t.Errorf("%q: exit %d, %+v", env, code, r)
		}
		if r.Release == "" || r.Sysname != "Linux" {
			t.Errorf("kernel: %+v", r)
		}
	}
}

func TestAnswersDiffer(t *testing.T) {
	if again := answer(1); answer(1) == answer(2) || answer(1) != again {
		t.Error("answers prove nothing")
	}
}

// verdicts runs Net and decodes its lines.
func verdicts(t *testing.T, args ...string) []NetResult {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Net(args, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	return decode(t, out.Bytes())
}

func decode(t *testing.T, b []byte) (rs []NetResult) {
	t.Helper()
	for line := range strings.Lines(string(b)) {
		var r NetResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	return rs
}

func TestNetVerdicts(t *testing.T) {
	tcp := parsed(t, "tcp:127.0.0.1:0")
	ta, err := tcp.serve()
	if err != nil {
		t.Fatal(err)
	}
	ua, err := parsed(t, "udp:127.0.0.1:0").serve()
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	full := fullListener(t)
	checkVerdicts(t, testenv.Patience.String(), true, [][2]string{
		{"tcp:" + ta.String(), "connected"}, {"udp:" + ua.String(), "answered 11 bytes"}, {"frag:" + ua.String(), "answered 11 bytes"},
		{"tcp:" + refusing(t), "refused"}, {"dns:" + dnsStandIn(t) + ":example.org", "answered rcode 3, 0 records"},
	})
	checkVerdicts(t, "300ms", false, [][2]string{
		{"udp:" + silent.LocalAddr().String(), "no answer"}, {"tcp:" + full, "no answer"}, {"dns:" + ua.String() + ":example.org", "no answer"},
	})
}

// checkVerdicts probes targets, each with how the detail of its verdict begins.
func checkVerdicts(t *testing.T, timeout string, reached bool, want [][2]string) {
	t.Helper()
	args := []string{"-timeout", timeout}
	for _, w := range want {
		args = append(args, w[0])
	}
	for i, got := range verdicts(t, args...) {
		if w := want[i]; got.Target != w[0] || got.Reached != reached || !strings.HasPrefix(got.Detail, w[1]) {
			t.Errorf("%s: %+v, want %v, %s", w[0], got, reached, w[1])
		}
	}
}

func parsed(t *testing.T, s string) target {
	t.Helper()
	p, err := parseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dnsStandIn answers every query with NXDOMAIN, after one stray datagram.
func dnsStandIn(t *testing.T) string {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			c.WriteTo([]byte("stray"), from)
			buf[2], buf[3] = 0x81, 0x83
			c.WriteTo(buf[:n], from)
		}
	}()
	return c.LocalAddr().String()
}

func TestParseTargetEdges(t *testing.T) {
	for s, ok := range map[string]bool{
		"tcp:127.0.0.1:80": true, "tcp:[::1]:80": true, "tcp:::1:80": false, "tcp:host:80": false, "tcp:127.0.0.1": false,
		"udp:127.0.0.1:65535": true, "udp:127.0.0.1:65536": false,
		"dns:127.0.0.11:a.b": true, "dns:127.0.0.11:5353:a.b": true, "dns:[::1]:a.b": true, "dns:[::1]:53:a.b": true, "dns:127.0.0.11": false, "dns:127.0.0.11:": false,
		"tcp6ll:[fe80::1]:80": true, "tcp6ll:[fe80::1%eth0]:80": false, "tcp6ll:[2001:db8::1]:80": false, "tcp6ll:127.0.0.1:80": false,
		"icmp:127.0.0.1": false, "": false,
	} {
		if _, err := parseTarget(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestF33LinkLocal probes a neighbour's fe80:: address from a network
// namespace of its own.
func TestF33LinkLocal(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("no ip command")
	}
	script := `
		set -e
		unshare -n sleep 600 & other=$!
		trap 'kill $other; wait' EXIT
		while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
		inside="nsenter -t $other -n"
		ip link add wva type veth peer name wvb
		ip link set wvb netns $other
		sysctl -qw net.ipv6.conf.all.disable_ipv6=0
		$inside sysctl -qw net.ipv6.conf.all.disable_ipv6=0
		ip link set wva up; $inside ip link set wvb up
		addr=
		while [ -z "$addr" ]; do addr=$($inside ip -6 -o addr show wvb scope link -tentative | sed 's/.*inet6 \([^/]*\).*/\1/'); sleep 0.05; done
		until ip -6 -o addr show wva scope link -tentative | grep -q inet6; do sleep 0.05; done
		$inside $0 listen 'tcp:[::]:4711' >/dev/null & listener=$!
		trap 'kill $other $listener; wait' EXIT
		$0 netprobe -timeout 60s -settle 2s "tcp6ll:[$addr]:4711" 'tcp6ll:[fe80::dead]:4711'`
	cmd := exec.CommandContext(t.Context(), "unshare", "-nm", "sh", "-c", script, os.Args[0])
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := decode(t, out); len(got) != 2 || !got[0].Reached || got[1].Reached {
		t.Errorf("%+v", got)
	}
}

func FuzzDNSAnswer(f *testing.F) {
	f.Add([]byte("\x00\x07\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) { dnsAnswer(7, b) })
}

func TestDNSQuery(t *testing.T) {
	want := "\x01\x02\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x03org\x00\x00\x01\x00\x01"
	if got := string(dnsQuery(0x0102, "a.org.")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is meant for everybody leaves also where no route leads to everybody: an
// engine's internal network may have none, and any process can do the same.
func TestToEverybodyNeedsNoRoute(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	script := `ip link set lo up && ip link add name v0 type veth peer name v1 && ip addr add 192.0.2.2/29 dev v0 &&
		ip link set v0 up && ip link set v1 up && "$0" netprobe -timeout 300ms "$@" && exec "$0" netprobe -timeout 60s udp:198.51.100.1:9`
	targets := []string{"udp:255.255.255.255:9", "frag:255.255.255.255:9", "udp:224.0.0.1:9", "frag:224.0.0.1:9"}
	out, err := exec.CommandContext(t.Context(), "unshare", append([]string{"--net", "sh", "-c", script, os.Args[0]}, targets...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := decode(t, out)
	for i, r := range got {
		if sent := r.Detail == "no answer"; sent != (i < len(targets)) {
			t.Errorf("%s: %s", r.Target, r.Detail)
		}
	}
	if len(got) != len(targets)+1 {
		t.Errorf("%d verdicts", len(got))
	}
}
