package docker

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	goldenRun  = uuid.MustParse("6f9619ff-8b86-5d01-b42d-00cf4fc964ff")
	goldenPlan = netpool.PlanOf(netip.MustParsePrefix("10.213.0.8/29"))
	goldenNet  = runNetwork{ID: "f00dfacef00dfacef00dface", Plan: goldenPlan}
	// goldenHost is an engine on a host with everything.
	goldenHost = hostFacts{
		Version: "20.10.24", Major: 20, NCPU: 8, Arch: "amd64", Kernel: "6.1.0",
		Runtimes: []string{"kata", "krun", "runc", "runsc"}, DefaultRuntime: "runc",
		AppArmor: true, SELinux: true, KVMGroup: 108,
	}
	goldenImage = imageFacts{
		ID: "sha256:1111", Arch: "amd64", OS: "linux", Entrypoint: []string{"/entrypoint"}, Cmd: []string{"serve"},
		User: "app", WorkDir: "/srv", StopSignal: "SIGQUIT", Labels: map[string]string{"maintainer": "x", "wardyn.instance": "forged"},
	}
)

func goldenLabels(component string) map[string]string {
	return map[string]string{
		labelManaged: "true", labelComponent: component, labelInstance: "00000000", labelProof: "proof",
		labelRun: goldenRun.String(), labelClass: "CCx",
	}
}

func goldenAgent(class types.ConfinementClass, runtime string) agentInput {
	net := goldenNet
	return agentInput{
		Spec: runner.SandboxSpec{
			RunID: goldenRun, Image: "registry.example.org/agent:1", Env: map[string]string{"B": "2", "A": "1", "https_proxy": "http://elsewhere"},
			Resources: runner.Resources{}.WithDefaults(), Labels: map[string]string{"team": "blue", labelRun: "forged"},
			Task: &runner.TaskProcess{Argv: []string{"claude", "-p", "fix it"}},
		},
		Class: class, Runtime: runtime, Image: goldenImage, Host: goldenHost, Net: &net,
		Recorder: "/var/lib/wardyn/bin/0123/wardyn-rec", Files: "/run/wardyn/00000000/run/files",
		Labels: goldenLabels(componentAgent),
	}
}

// goldenFull asks for everything a task can ask for.
func goldenFull() agentInput {
	in := goldenAgent(types.CC1, "runc")
	in.Host.DiskQuota, in.Host.RecursiveReadOnly, in.Host.Major = true, []string{"runc"}, 28
	in.Spec.Resources = runner.Resources{CPUMillis: 500, MemoryMiB: 1024, PidsLimit: 100, DiskMiB: 2048}
	in.Seccomp = `{"defaultAction":"SCMP_ACT_ERRNO"}`
	in.Spec.Mounts = []runner.Mount{{Source: "/srv/repo", Target: "/workspace/repo", ReadOnly: true}}
	in.Spec.Task = &runner.TaskProcess{
		Argv: []string{"run"}, Entrypoint: []string{"/bin/tool", "-v"}, User: "1000:1000", WorkDir: "/work", Hostname: "box",
		TTY: true, Stdin: true, StopSignal: "SIGINT",
		Mounts:         []runner.TaskMount{{Source: "/alloc/local", Target: "/local"}, {Source: "/alloc/data", Target: "/data", ReadOnly: true, Propagation: "rslave"}},
		Tmpfs:          []runner.Tmpfs{{Target: "/tmp", SizeMiB: 32, Mode: 0o700}, {Target: "/scratch"}},
		ReadonlyRootfs: true, ShmMiB: 128, CapAdd: []string{"SETUID", "CHOWN"},
		Sysctls:   map[string]string{"net.ipv4.tcp_keepalive_time": "60"},
		Ulimits:   []runner.Ulimit{{Name: "nofile", Soft: 10, Hard: 20}, {Name: "core", Soft: 0, Hard: 0}},
		CPUShares: 512, CpusetCpus: "0-1", MemoryReservationMiB: 512,
		Devices: []runner.Device{{Host: "/dev/fuse", Target: "/dev/fuse", Permissions: "rw"}}, GroupAdd: []string{"44"},
		AppArmor: "operators", OOMScoreAdj: 700, Log: runner.LogRotation{SizeMiB: 5, Files: 3},
	}
	return in
}

// goldens are all the things the engine is ever asked to make.
func goldens(t *testing.T) map[string]any {
	agent := func(in agentInput) any {
		t.Helper()
		c, err := agentConfig(in)
		if err != nil {
			t.Fatal(err)
		}
		return short(c)
	}
	idle, alone, imageCmd, idleTask := goldenAgent(types.CC1, "runc"), goldenAgent(types.CC1, "runc"), goldenAgent(types.CC1, "runc"), goldenAgent(types.CC2, "runsc")
	idle.Spec.Task = nil
	alone.Spec.Task.NoNetwork, alone.Net = true, nil
	imageCmd.Spec.Task.Argv = nil
	idleTask.Spec.Task = &runner.TaskProcess{Idle: true}
	pooled := func(class types.ConfinementClass, runtime string) agentInput {
		in := goldenAgent(class, runtime)
		in.Holder = "401de4401de4401de4"
		in.Labels[labelSlot] = goldenRun.String()
		return in
	}
	new28 := goldenHost
	new28.Major = 28
	return map[string]any{
		"agent-cc1":            agent(goldenAgent(types.CC1, "runc")),
		"agent-cc2":            agent(goldenAgent(types.CC2, "runsc")),
		"agent-cc3-kata":       agent(goldenAgent(types.CC3, "kata")),
		"agent-cc3-krun":       agent(goldenAgent(types.CC3, "krun")),
		"agent-cc1-pooled":     agent(pooled(types.CC1, "runc")),
		"agent-cc2-pooled":     agent(pooled(types.CC2, "runsc")),
		"agent-cc1-everything": agent(goldenFull()),
		"agent-cc1-image-cmd":  agent(imageCmd),
		"agent-cc1-no-network": agent(alone),
		"agent-cc1-idle-spec":  agent(idle),
		"agent-cc2-idle-task":  agent(idleTask),
		"seccomp":              json.RawMessage(seccompProfile()),
		"sidecar": short(sidecarConfig(sidecarInput{
			Run: goldenRun, ImageID: "sha256:2222", Control: "/run/wardyn/00000000/run/control", Net: goldenNet, Host: goldenHost,
			Labels: goldenLabels(componentProxy), Caller: map[string]string{"team": "blue"},
		})),
		"holder": short(holderConfig(holderInput{
			ImageID: "sha256:2222", Net: goldenNet, Host: goldenHost, Labels: goldenLabels(componentHolder),
		})),
		"probe-cc2": short(probeConfig(probeInput{
			Image: "sha256:2222", Runtime: "runsc", Class: types.CC2, Host: goldenHost, Net: goldenNet, Args: []string{"probe"}, Labels: goldenLabels(componentProbe),
		})),
		"network-20": runNetworkOptions(goldenPlan, goldenHost, goldenLabels(componentNetwork)),
		"network-28": runNetworkOptions(goldenPlan, new28, goldenLabels(componentNetwork)),
		"egress":     egressOptions(netip.MustParsePrefix("10.214.0.0/22"), goldenLabels(componentEgress)),
	}
}

// short names the filter of system calls, which has a golden file of its own.
func short(c containerConfig) containerConfig {
	for i, o := range c.HostConfig.SecurityOpt {
		if o == "seccomp="+seccompProfile() {
			c.HostConfig.SecurityOpt[i] = "seccomp=(seccomp.golden.json)"
		}
	}
	return c
}

// C20, R29, R39, S75: what the engine is asked for stands in testdata, so that
// no change of confinement goes unseen.
func TestR29Goldens(t *testing.T) {
	all := goldens(t)
	for name, v := range all {
		got, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".golden.json")
		if *update {
			if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.TrimSpace(want), got) {
			t.Errorf("%s: the engine would be asked for something else; look at the change, then run with -update\n%s", name, firstDiff(want, got))
		}
	}
	files, err := filepath.Glob("testdata/*.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := all[strings.TrimSuffix(filepath.Base(f), ".golden.json")]; !ok {
			t.Errorf("%s: nothing makes this any more", f)
		}
	}
}

func firstDiff(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "want " + x[i] + "\ngot  " + y[i]
		}
	}
	return "one is longer"
}

// A golden file shows every field that the engine could be asked for: there is
// none that a change could hide in.
func TestGoldensSeeEveryField(t *testing.T) {
	for name, v := range map[string]any{
		"Config": &container.Config{}, "HostConfig": &container.HostConfig{}, "Networking": &network.NetworkingConfig{}, "Network": &network.CreateOptions{},
	} {
		empty, _ := json.Marshal(v)
		rv := reflect.ValueOf(v).Elem()
		for _, f := range reflect.VisibleFields(rv.Type()) {
			if f.Anonymous || !f.IsExported() {
				continue
			}
			field := rv.FieldByIndex(f.Index)
			field.Set(nonZero(field.Type()))
			got, err := json.Marshal(v)
			if err != nil || bytes.Equal(got, empty) {
				t.Errorf("%s.%s does not show (%v)", name, f.Name, err)
			}
			field.SetZero()
		}
	}
}

func nonZero(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint16, reflect.Uint64:
		v.SetUint(7)
	case reflect.Slice:
		v.Set(reflect.Append(v, nonZero(t.Elem())))
	case reflect.Array:
		v.Index(0).Set(nonZero(t.Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(nonZero(t.Key()), nonZero(t.Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(nonZero(t.Elem()))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(nonZero(t.Field(i).Type))
				break
			}
		}
	}
	return v
}

// R17: equal specs give equal requests, whatever order maps are read in.
func TestR17EnvIsSorted(t *testing.T) {
	env := sandboxEnv(goldenRun, map[string]string{"Z": "1", "A": "2", "M": "3"}, true, "")
	if !slices.IsSorted(env) {
		t.Errorf("not sorted: %q", env)
	}
}

// R6, R54: the caller's labels never win over the reserved ones, nor do an image's.
func TestR6ReservedLabelsWin(t *testing.T) {
	reserved := goldenLabels(componentAgent)
	forged := map[string]string{"kept": "1"}
	for k := range reserved {
		forged[k] = "forged"
	}
	got := mergeLabels(map[string]string{labelProof: "forged", "wardyn.session": "forged", "other": "image"}, forged, reserved)
	want := maps.Clone(reserved)
	want["kept"], want["wardyn.session"] = "1", ""
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
