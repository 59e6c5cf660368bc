package docker

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// attackReport is what the program of testdata/attack says when all it tries
// is refused, line by line; a line that is not here may say anything.
var attackRefused = []string{
	"user namespace: operation not permitted", "packet socket: operation not permitted",
	"raw socket: operation not permitted", "static route: refused", "ARP entry: refused", "address: refused", "init's memory: refused", "hold on init: refused",
	"LD_PRELOAD: unset", "NOMAD_TOKEN: unset", "VAULT_TOKEN: unset", "RAINIER_SETUP_B64: unset", "WARDYN_RUN_TOKEN: unset",
	"tcp socket: errno 0",
}

// A task, as root or not, makes no user namespace and no raw or packet socket,
// sets no route, no ARP entry and no address, has no hold on its own pid 1, and sees nothing of what its image would set in
// the driver's name: neither as main process, nor as an exec, nor as what its
// image has for init to run. At CC2 the filter
// is wardyn-rec's, and what goes past it is given all that.
func TestTaskCannotWidenItsSandbox(t *testing.T) {
	program, err := os.ReadFile(testenv.Build(t, "./runner/docker/testdata/attack"))
	if err != nil {
		t.Fatal(err)
	}
	image := testenv.ImageWith(t, testenv.ImageConfig{
		Env: []string{"LD_PRELOAD=/evil.so", "NOMAD_TOKEN=t", "VAULT_TOKEN=t", "RAINIER_SETUP_B64=eA==", "WARDYN_RUN_TOKEN=t"},
		// Whatever the test's user is, it may execute it.
		ExtraFiles: map[string]string{
			"bin/attack": string(program),
			// Init runs it for the run's CA, where its user may write that store.
			"bin/update-ca-certificates": "#!/bin/sh\nattack >/report 2>&1\n", "usr/local/share/ca-certificates/.keep": "",
		},
	})
	w := newWorld(t)
	for _, rt := range testenv.Runtimes(t) {
		w.assumeWorks(t, classFor(rt), rt)
		for _, user := range []string{"0:0", "1000:1000"} {
			t.Run(rt+" "+user, func(t *testing.T) { w.testAttack(t, rt, user, image) })
		}
	}
}

func (w *world) testAttack(t *testing.T, rt, user, image string) {
	spec := specFor(t, rt)
	sink := newCollector()
	spec.Image = image
	spec.Env = map[string]string{"WARDYN_MITM_CA_PEM": "a run's CA"}
	spec.Task = &runner.TaskProcess{Argv: sh("attack; echo end; exec sleep 98765"), User: user, NoNetwork: true, Output: sink}
	ref := w.startedSandbox(t, spec)
	x, err := w.ExecStream(soon(t), ref, runner.ExecSpec{Argv: []string{"attack"}})
	if err != nil {
		t.Fatal(err)
	}
	inExec := drain(x, nil)
	reports := map[string]string{"exec": inExec.stdout + inExec.stderr}
	if user == "0:0" {
		reports["image's program"] = w.direct(t, ref, "/bin/cat", "/report")
	}
	if rt != "runc" && user == "1000:1000" {
		if out := w.direct(t, ref, "/bin/attack"); !strings.Contains(out, "user namespace: errno 0") {
			t.Errorf("without the filter no user namespace is made, so this shows nothing:\n%s", out)
		}
	}
	if err := w.KillSandbox(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	reports["main process"], _ = sink.streams(t)
	for how, report := range reports {
		if rt == "runc" && !strings.Contains(report, "init's environment: refused\n") {
			t.Errorf("%s reads init's environment", how) // gVisor lets it; the task's own is the same
		}
		for _, want := range attackRefused {
			if !strings.Contains(report, want+"\n") {
				t.Errorf("%s: want %q:\n%s", how, want, report)
			}
		}
	}
}

// What keeps root in a sandbox from all that with the network is that it has no
// capability: with the two that are about it, everything is given at CC1.
func TestWithCapabilitiesTheNetworkIsGiven(t *testing.T) {
	program, err := os.ReadFile(testenv.Build(t, "./runner/docker/testdata/attack"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for given, caps := range map[bool][]string{true: {"NET_ADMIN", "NET_RAW"}, false: nil} {
		id, _ := w.bare(t, "runc", nil, func(c *containerConfig) { c.Config.User, c.HostConfig.CapAdd = "0:0", caps })
		x, err := w.ExecStream(soon(t), id, runner.ExecSpec{Argv: sh("cat >/root/attack && chmod +x /root/attack && /root/attack")})
		if err != nil {
			t.Fatal(err)
		}
		report := drain(x, bytes.NewReader(program)).stdout
		for _, want := range []string{"packet socket: errno 0", "raw socket: errno 0", "static route: given", "ARP entry: given", "address: given"} {
			if strings.Contains(report, want+"\n") != given {
				t.Errorf("capabilities %v: %q is there: %v\n%s", caps, want, !given, report)
			}
		}
	}
}

// K13: at CC2 the host's limit is a guard at a distance. A task that starts
// processes without end meets it or gVisor's own first, and the host never has
// more of them than it says.
func TestK13PidsAtCC2(t *testing.T) {
	if len(testenv.Runtimes(t)) < 2 {
		t.Skip("no gVisor")
	}
	w := newWorld(t)
	w.assumeWorks(t, classFor("runsc"), "runsc")
	spec := specFor(t, "runsc")
	spec.Resources.PidsLimit = 64
	spec.Task = &runner.TaskProcess{Argv: sh("until test -e /home/agent/go; do sleep 0.05; done; i=0; while [ $i -lt 2000 ]; do sleep 98765 & i=$((i+1)); done; wait"), User: "1000:1000", NoNetwork: true}
	ref := w.startedSandbox(t, spec)
	dir := w.pidsCgroup(t, ref)
	limit := readNumber(t, dir+"/pids.max")
	if want := hostPids(64, classFor("runsc")); limit != want {
		t.Errorf("the host's limit is %d, want %d", limit, want)
	}
	if res := (&box{Runner: w.Runner, ref: ref}).run(t, runner.ExecSpec{Argv: sh("mkdir -p /home/agent && : >/home/agent/go")}, ""); res.code != 0 {
		t.Fatalf("%+v", res)
	}
	most, ended := int64(0), false
	testenv.Eventually(t, "the limit", func() bool {
		if b, err := os.ReadFile(dir + "/pids.current"); err == nil {
			var n int64
			fmt.Fscan(bytes.NewReader(b), &n)
			most = max(most, n)
		}
		st, err := w.Status(t.Context(), ref)
		ended = err == nil && st.State.Terminal()
		return ended || most >= limit
	})
	if most > limit {
		t.Errorf("%d processes and threads on the host, limit %d", most, limit)
	}
	t.Logf("at most %d of %d, sandbox ended: %v", most, limit, ended)
}

// pidsCgroup is the folder of a sandbox's pids limit on the host.
func (w *world) pidsCgroup(t *testing.T, ref string) string {
	t.Helper()
	c, err := w.cl.ContainerInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.State.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case f[1] == "pids":
			return "/sys/fs/cgroup/pids" + f[2]
		case f[0] == "0" && f[2] != "/":
			return "/sys/fs/cgroup" + f[2]
		}
	}
	t.Fatalf("no pids cgroup in %s", b)
	return ""
}

func readNumber(t *testing.T, path string) (n int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b), &n); err != nil {
		t.Fatalf("%s: %q", path, b)
	}
	return n
}
