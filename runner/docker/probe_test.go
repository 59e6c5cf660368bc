package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/system"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// Invariant 2, R63, R65, K1: what a probe must show before a class is claimed.
func TestR63JudgeClass(t *testing.T) {
	report := func(release string, right int) string {
		return fmt.Sprintf(`{"sysname":"Linux","release":%q,"processes":64,"right":%d,"fault":"process 3: exit status 2"}`, release, right)
	}
	host := hostFacts{Kernel: "6.1.0", BootID: "b1"}
	for _, tc := range []struct {
		name, runtime string
		class         types.ConfinementClass
		out           probeOutput
		err           error
		want          string // part of the verdict; "" is that it works
	}{
		{"runc", "runc", types.CC1, probeOutput{stdout: report("6.1.0", 64)}, nil, ""},
		{"gVisor", "runsc", types.CC2, probeOutput{stdout: report("4.4.0", 64)}, nil, ""},
		{"gVisor that is runc", "runsc", types.CC2, probeOutput{stdout: report("6.1.0", 64)}, nil, "not gVisor"},
		{"a microVM", "kata", types.CC3, probeOutput{stdout: report("5.15.0", 64)}, nil, ""},
		{"a microVM that is runc", "kata", types.CC3, probeOutput{stdout: report("6.1.0", 64)}, nil, "not a virtual machine"},
		{"a microVM that is gVisor", "kata", types.CC3, probeOutput{stdout: report("4.4.0", 64)}, nil, "not a virtual machine"},
		{"gVisor by another name of the host's kernel", "runsc", types.CC2, probeOutput{stdout: `{"release":"4.4.0","boot_id":"b1","processes":64,"right":64}`}, nil, "not gVisor"},
		{"a microVM by another name of the host's kernel", "kata", types.CC3, probeOutput{stdout: `{"release":"5.15.0","boot_id":"b1","processes":64,"right":64}`}, nil, "not a virtual machine"},
		{"a microVM with a boot of its own", "kata", types.CC3, probeOutput{stdout: `{"release":"5.15.0","boot_id":"b2","processes":64,"right":64}`}, nil, ""},
		{"one program of 64 wrong", "runsc", types.CC2, probeOutput{code: 1, stdout: report("4.4.0", 63)}, nil, "63 of 64"},
		{"right and yet failed", "runsc", types.CC2, probeOutput{code: 1, stdout: report("4.4.0", 64)}, nil, "64 of 64"},
		{"no programs at all", "runc", types.CC1, probeOutput{stdout: `{"release":"6.1.0"}`}, nil, "0 of 0"},
		{"a sentry built with too new a Go", "runsc", types.CC2, probeOutput{code: 2}, nil, "too new a Go"},
		{"no report", "runc", types.CC1, probeOutput{code: 1, stderr: "no such file"}, nil, "no such file"},
		{"too old a gVisor", "runsc", types.CC2, probeOutput{}, errors.New("start: OCI: cannot run with network enabled in root network namespace"), "--network=host"},
		{"hangs", "runsc", types.CC2, probeOutput{}, errProbeLate, "hangs"},
	} {
		err := judgeClass(subject{tc.class, tc.runtime}, host, tc.out, tc.err)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// S14, K15: what a netprobe must show before a sandbox is said to be shut in.
func TestS14JudgeEgress(t *testing.T) {
	targets := []string{"tcp:192.0.2.1:22", "dns:127.0.0.11:" + probeDomain}
	line := func(target string, reached bool, detail string) string {
		return fmt.Sprintf("{\"target\":%q,\"reached\":%v,\"detail\":%q}\n", target, reached, detail)
	}
	shut, quiet := line(targets[0], false, "dial tcp 192.0.2.1:22: connect: no route to host"), line(targets[1], false, "no answer")
	for _, tc := range []struct {
		name string
		out  probeOutput
		err  error
		want string
	}{
		{"shut in", probeOutput{stdout: shut + quiet}, nil, ""},
		{"the engine's resolver could ask nobody", probeOutput{stdout: shut + line(targets[1], true, "answered rcode 2, 0 records")}, nil, ""},
		{"a resolver said there is no such name", probeOutput{stdout: shut + line(targets[1], true, "answered rcode 3, 0 records")}, nil, "127.0.0.11"},
		{"a resolver gave an address", probeOutput{stdout: shut + line(targets[1], true, "answered rcode 0, 1 records")}, nil, "127.0.0.11"},
		{"the network is unreachable", probeOutput{stdout: line(targets[0], false, "connect: network is unreachable") + quiet}, nil, ""},
		{"the bridge's address is silent, as behind a firewall", probeOutput{stdout: line(targets[0], false, "no answer") + quiet}, nil, "not shown"},
		{"the host answered", probeOutput{stdout: line(targets[0], true, "connected") + quiet}, nil, "192.0.2.1"},
		{"the host refused, which is an answer", probeOutput{stdout: line(targets[0], true, "refused") + quiet}, nil, "192.0.2.1"},
		{"a target is missing", probeOutput{stdout: shut}, nil, "1 of 2"},
		{"another target was tried", probeOutput{stdout: quiet + shut}, nil, "want"},
		{"it failed", probeOutput{code: 1, stdout: shut + quiet}, nil, "exit code 1"},
		{"it printed nonsense", probeOutput{stdout: "hello"}, nil, "0 of 2"},
		{"it could not be run", probeOutput{}, errors.New("boom"), "boom"},
	} {
		err := judgeEgress(targets, tc.out, tc.err)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// A probe that heard nothing runs once more; silence twice is a verdict, and so
// is everything else the first time.
func TestSilenceIsProbedTwice(t *testing.T) {
	silent, reached := fmt.Errorf("a host %w", errSilent), errors.New("reached")
	for _, tc := range []struct {
		name   string
		probes []error
		want   error
	}{
		{"shut in at once", []error{nil}, nil},
		{"late the first time", []error{silent, nil}, nil},
		{"silent twice", []error{silent, silent}, errSilent},
		{"silent, then reached", []error{silent, reached}, reached},
		{"reached at once", []error{reached}, reached},
	} {
		n := 0
		err := twiceIfSilent(func() error { n++; return tc.probes[n-1] })
		if !errors.Is(err, tc.want) || n != len(tc.probes) {
			t.Errorf("%s: %v after %d of %d probes", tc.name, err, n, len(tc.probes))
		}
	}
}

func TestEgressTargets(t *testing.T) {
	got := strings.Join(egressTargets(goldenNet, []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("fd00::1"),
	}, linkLocalOf([]byte{2, 0x42, 1, 2, 3, 4})), " ")
	const want = "tcp:10.213.0.9:22 udp:10.213.0.9:53 tcp:169.254.169.254:80 dns:127.0.0.11:egress-probe.wardyn.invalid tcp6ll:[fe80::42:1ff:fe02:304]:22 tcp:192.0.2.7:22"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	many := make([]netip.Addr, 500)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
	}
	if n := len(egressTargets(goldenNet, many, netip.Addr{})); n != maxTargets {
		t.Errorf("%d targets", n)
	}
}

// R61: every flag follows from a probe.
func TestR61Findings(t *testing.T) {
	states := []classState{
		{subject: subject{types.CC1, "runc"}}, {subject: subject{types.CC2, "runsc"}, err: errors.New("hangs")}, {subject: subject{types.CC3, ""}, err: errors.New("none")}}
	f := findingsOf(hostFacts{Version: "28.5.2"}, states, true)
	if !f.Healthy || !f.Capabilities.StructuralEgress || len(f.Capabilities.ConfinementClasses) != 1 || f.Capabilities.Resolved[types.CC1] != "oci/runc" ||
		f.EngineVersion != "28.5.2" || len(f.Classes) != 3 || f.Classes[1].Works || f.Classes[1].Reason != "hangs" {
		t.Errorf("%+v", f)
	}
	if f := findingsOf(hostFacts{}, states, false); f.Capabilities.StructuralEgress || !strings.Contains(f.Reason, "bridge-nf-call-iptables") {
		t.Errorf("K16: %+v", f)
	}
	states[1].err = errDisturbed
	if f := findingsOf(hostFacts{}, states[1:], true); !f.Pending {
		t.Errorf("a class whose probe was disturbed is refused for good: %+v", f)
	}
	states[1].err = errors.New("hangs")
	if f := findingsOf(hostFacts{}, states[1:], true); f.Pending || f.Healthy || f.Capabilities.StructuralEgress || !strings.Contains(f.Reason, "hangs") {
		t.Errorf("%+v", f)
	}
}

// Invariant 8, D-12: an engine that is away is unhealthy, with the remedy, and
// Capabilities is an error. When it is back, what was known of it is void.
func TestProbeEngineAway(t *testing.T) {
	w := newFakeWorld(t)
	if err := w.requireClass(t.Context(), subject{types.CC1, "runc"}, mustFacts(t, w.Runner)); err != nil {
		t.Fatal(err)
	}
	w.engine.before = func(int, string) error { return errors.New("connection refused") }
	f := w.Probe(t.Context())
	if f.Healthy || !strings.Contains(f.Reason, "does not answer") || f.Capabilities.Driver != "docker" {
		t.Errorf("%+v", f)
	}
	if again := w.Probe(t.Context()); again.Reason != f.Reason {
		t.Errorf("the reason changes: %q, %q", f.Reason, again.Reason)
	}
	if _, err := w.Capabilities(t.Context()); !errors.Is(err, runner.ErrUnavailable) {
		t.Errorf("Capabilities: %v", err)
	}
	w.engine.before = nil
	key := w.engineKey(mustFacts(t, w.Runner))
	if w.findings.known[subject{types.CC1, "runc"}].stands(key) {
		t.Error("a verdict from before still stands")
	}
}

func TestProbeRefusesRemappedUsers(t *testing.T) {
	w := newFakeWorld(t)
	w.engine.info.SecurityOptions = []string{"name=userns"}
	if f := w.Probe(t.Context()); f.Healthy || !strings.Contains(f.Reason, "userns-remap") {
		t.Errorf("%+v", f)
	}
}

func mustFacts(t *testing.T, r *Runner) hostFacts {
	t.Helper()
	r.forgetFacts()
	f, err := r.facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// R62: a runtime list that changes is probed anew; an age too.
func TestR62VerdictsStand(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		f    finding
		want bool
	}{
		"fresh":          {finding{known: true, key: "k", at: now}, true},
		"another engine": {finding{known: true, key: "other", at: now}, false},
		"unknown":        {finding{key: "k", at: now}, false},
		"old":            {finding{known: true, key: "k", at: now.Add(-goodLife - time.Second)}, false},
		"bad and fresh":  {finding{known: true, key: "k", at: now, verdict: verdict{err: errors.New("x")}}, true},
		"bad and older":  {finding{known: true, key: "k", at: now.Add(-badLife - time.Second), verdict: verdict{err: errors.New("x")}}, false},
	} {
		if got := tc.f.stands("k"); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	w := newFakeWorld(t)
	before := w.engineKey(mustFacts(t, w.Runner))
	w.engine.info.Runtimes["kata"] = system.RuntimeWithStatus{}
	if w.engineKey(mustFacts(t, w.Runner)) == before {
		t.Error("a new runtime does not change the key")
	}
}

// R63, R64: a runtime that hangs withdraws its class and nothing else; there is
// one probe of it however often is asked, and none while its remains are there.
func TestR64HangingRuntime(t *testing.T) {
	c := newFindings()
	s := subject{types.CC2, "runsc"}
	entered, release := make(chan struct{}, 9), make(chan struct{})
	cleared := make(chan error)
	probe := func(context.Context) verdict {
		entered <- struct{}{}
		<-release
		return verdict{err: errProbeLate, left: true}
	}
	clear := func() error { return <-cleared }
	for range 5 {
		c.refresh(s, "k", probe, clear)
	}
	<-entered
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.await(late, s, "k"); err == nil || !strings.Contains(err.Error(), "still running") {
		t.Errorf("while it runs: %v", err)
	}
	close(release)
	if err := c.await(t.Context(), s, "k"); !errors.Is(err, errProbeLate) {
		t.Errorf("verdict: %v", err)
	}
	c.refresh(s, "another engine", probe, clear)
	if err := c.await(t.Context(), s, "another engine"); err == nil || !strings.Contains(err.Error(), "cannot be removed") {
		t.Errorf("while its remains are there: %v", err)
	}
	if len(entered) != 0 {
		t.Error("a second probe was started")
	}
	cleared <- nil
	c.stop()
	if c.known[s].clearing {
		t.Error("still clearing")
	}
	c.refresh(s, "k", probe, clear)
	if len(entered) != 0 {
		t.Error("a probe was started after the end")
	}
}

// An earlier verdict on the same engine stands until the new one is in.
func TestOldVerdictStandsMeanwhile(t *testing.T) {
	c := newFindings()
	s := subject{types.CC1, "runc"}
	c.known[s] = &finding{known: true, key: "k", at: time.Now().Add(-goodLife - time.Minute)}
	entered, release := make(chan struct{}), make(chan struct{})
	c.refresh(s, "k", func(context.Context) verdict {
		close(entered)
		<-release
		return verdict{err: errors.New("broken since")}
	}, nil)
	<-entered
	if err := c.await(t.Context(), s, "k"); err != nil {
		t.Errorf("meanwhile: %v", err)
	}
	close(release)
	c.stop()
	if err := c.await(t.Context(), s, "k"); err == nil {
		t.Error("the new verdict is not heard")
	}
}
