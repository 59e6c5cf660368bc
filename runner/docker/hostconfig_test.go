package docker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// R34, B26, K5: whose command runs.
func TestR34Argv(t *testing.T) {
	img := imageFacts{Entrypoint: []string{"/ep", "-x"}, Cmd: []string{"def", "ault"}}
	for _, tc := range []struct {
		name string
		task *runner.TaskProcess
		img  imageFacts
		want string // after "init", blanks between; "" is an error
	}{
		{"image's own", &runner.TaskProcess{}, img, "-- /ep -x def ault"},
		{"command keeps the entrypoint", &runner.TaskProcess{Argv: []string{"a", "b"}}, img, "-- /ep -x a b"},
		{"entrypoint drops the image's command", &runner.TaskProcess{Entrypoint: []string{"/mine"}}, img, "-- /mine"},
		{"both", &runner.TaskProcess{Entrypoint: []string{"/mine"}, Argv: []string{"a"}}, img, "-- /mine a"},
		{"entrypoint cleared", &runner.TaskProcess{Entrypoint: []string{}, Argv: []string{"a"}}, img, "-- a"},
		{"entrypoint cleared and no command", &runner.TaskProcess{Entrypoint: []string{}}, img, ""},
		{"nothing anywhere", &runner.TaskProcess{}, imageFacts{}, ""},
		{"an empty word", &runner.TaskProcess{Argv: []string{""}}, imageFacts{}, ""},
		{"terminal", &runner.TaskProcess{TTY: true, Argv: []string{"a"}}, imageFacts{}, "-tty -- a"},
		{"R40: recorded", &runner.TaskProcess{Recorded: true}, img, "-- " + recorderTarget + " -cast-dir /tmp/wardyn-rec -upload-url http://wardyn-proxy:3128/wardyn/v1/recordings/" +
			goldenRun.String() + " -run " + goldenRun.String() + " -- /ep -x def ault"},
		{"idle", &runner.TaskProcess{Idle: true}, img, "-idle"},
		{"idle with a terminal", &runner.TaskProcess{Idle: true, TTY: true}, img, "-tty -idle"},
		{"idle with a command", &runner.TaskProcess{Idle: true, Argv: []string{"a"}}, img, ""},
		{"the contract's idle sandbox", nil, img, "-- sh -c " + runner.AgentIdleScript},
	} {
		got, err := mainArgv(goldenRun, tc.task, tc.img)
		if (err != nil) != (tc.want == "") {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err == nil && strings.Join(got, " ") != recorderTarget+" init "+tc.want {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
	if len(img.Entrypoint) != 2 || img.Entrypoint[1] != "-x" {
		t.Error("the image's words were changed")
	}
}

// F23: a stop signal is always named.
func TestF23StopSignal(t *testing.T) {
	for _, tc := range []struct{ task, image, want string }{
		{"", "", "SIGTERM"}, {"", "SIGQUIT", "SIGQUIT"}, {"SIGINT", "SIGQUIT", "SIGINT"},
	} {
		in := goldenAgent(types.CC1, "runc")
		in.Spec.Task.StopSignal, in.Image.StopSignal = tc.task, tc.image
		if c, err := agentConfig(in); err != nil || c.Config.StopSignal != tc.want {
			t.Errorf("%+v: %v, %v", tc, c.Config.StopSignal, err)
		}
	}
}

// R29, B32: AppArmor and SELinux options only where engine and runtime have them.
func TestB32SecurityOpt(t *testing.T) {
	for _, tc := range []struct {
		runtime           string
		apparmor, selinux bool
		want              []string
	}{
		{"runc", false, false, []string{"no-new-privileges"}},
		{"runc", true, true, []string{"no-new-privileges", "apparmor=docker-default"}},
		{"runsc", true, true, []string{"no-new-privileges", "label=disable"}},
		{"runsc-ptrace", true, false, []string{"no-new-privileges"}},
		{"kata", true, true, []string{"no-new-privileges"}},
	} {
		if got := securityOpt(tc.runtime, hostFacts{Major: 25, AppArmor: tc.apparmor, SELinux: tc.selinux}); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

// R32, B34: /dev/kvm goes to krun alone.
func TestR32DeviceKVM(t *testing.T) {
	for rt, want := range map[string]int{"krun": 1, "kata": 0, "runc": 0, "runsc": 0} {
		c, err := agentConfig(goldenAgent(types.CC3, rt))
		if err != nil || len(c.HostConfig.Devices) != want || len(c.HostConfig.GroupAdd) != want {
			t.Errorf("%s: %v %v %v", rt, c.HostConfig.Devices, c.HostConfig.GroupAdd, err)
		}
	}
}

// K13: at CC2 the host's limit only guards the host.
func TestK13HostPids(t *testing.T) {
	for _, tc := range []struct {
		limit int64
		class types.ConfinementClass
		want  int64
	}{
		{512, types.CC1, 512}, {512, types.CC2, 1664}, {100, types.CC2, 512}, {128, types.CC2, 512}, {129, types.CC2, 515}, {100, types.CC3, 100},
	} {
		if got := hostPids(tc.limit, tc.class); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}

// B31, K43: what becomes of the caps.
func TestB31Resources(t *testing.T) {
	r := agentResources(runner.Resources{CPUMillis: 2000, MemoryMiB: 64, PidsLimit: 10}, runner.TaskProcess{CPUShares: 100}, types.CC1, hostFacts{NCPU: 1, MaxNofile: 1000})
	if r.Memory != 64<<20 || r.MemorySwap != r.Memory || r.NanoCPUs != 1_000_000_000 || *r.PidsLimit != 10 || r.CPUShares != 100 {
		t.Errorf("%+v", r)
	}
	if u := r.Ulimits[0]; u.Name != "nofile" || u.Soft != 1000 || u.Hard != 1000 {
		t.Errorf("nofile %+v: want what the host allows", u)
	}
}

// A default never exceeds the operator's maximum, an explicit figure does.
func TestDefaultsStayBelowMaxima(t *testing.T) {
	limit := runner.Resources{CPUMillis: 100, MemoryMiB: 200, PidsLimit: 30}
	if got := withDefaults(runner.Resources{}, limit); got != limit {
		t.Errorf("defaults: %+v", got)
	}
	asked := runner.Resources{CPUMillis: 101, MemoryMiB: 201, PidsLimit: 31, DiskMiB: 5}
	if got := withDefaults(asked, limit); got != asked {
		t.Errorf("asked: %+v", got)
	}
	if errs := checkMax(limit, limit); len(errs) > 0 {
		t.Errorf("at the maximum: %v", errs)
	}
	if errs := checkMax(asked, limit); len(errs) != 3 {
		t.Errorf("above the maximum: %v", errs)
	}
}

// T53, K27: both spellings of the proxy variables, and they win.
func TestT53ProxyVariablesWin(t *testing.T) {
	env := sandboxEnv(goldenRun, map[string]string{"http_proxy": "http://x", "NO_PROXY": "*", "WARDYN_RUN_ID": "forged"}, true, "")
	for _, want := range []string{
		"HTTP_PROXY=" + proxyURL, "HTTPS_PROXY=" + proxyURL, "http_proxy=" + proxyURL, "https_proxy=" + proxyURL,
		"NO_PROXY=localhost,127.0.0.1,::1,[::1],wardyn-proxy,host.docker.internal",
		"no_proxy=localhost,127.0.0.1,::1,[::1],wardyn-proxy,host.docker.internal",
		"WARDYN_PROXY_URL=http://wardyn-proxy:3128", "WARDYN_RUN_ID=" + goldenRun.String(),
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if len(env) != 8 {
		t.Errorf("%q", env)
	}
}

// K30: reserved names, and what cannot be an environment.
func TestK30Env(t *testing.T) {
	for k, ok := range map[string]bool{
		"PATH": true, "lower": true, "RAINIER_SETUP_B64": true, "WARDYN_MITM_CA_PEM": true, "WARDYNX": true,
		"WARDYN_PROXY_CONFIG_JSON": false, "WARDYN_RUN_TOKEN": false, "RAINIER_X": false, "": false, "A=B": false, "N\x00": false,
	} {
		if errs := checkEnv(map[string]string{k: "v"}); (len(errs) == 0) != ok {
			t.Errorf("%q: %v", k, errs)
		}
	}
	fits := strings.Repeat("x", maxEnvString-3)
	if errs := checkEnv(map[string]string{"A": fits}); len(errs) > 0 {
		t.Errorf("largest value: %v", errs)
	}
	if errs := checkEnv(map[string]string{"A": fits + "x"}); len(errs) == 0 {
		t.Error("a value too large passes")
	}
}

// K16: what no operator's list gives.
func TestK16NeverCapsAndSysctls(t *testing.T) {
	for c, ok := range map[string]bool{"CHOWN": true, "CAP_SETUID": true, "net_raw": false, "CAP_NET_ADMIN": false, "ALL": false, "SYS_ADMIN": false} {
		if errs := checkTask(runner.TaskProcess{CapAdd: []string{c}}); (len(errs) == 0) != ok {
			t.Errorf("cap %s: %v", c, errs)
		}
	}
	for k, ok := range map[string]bool{"net.ipv4.tcp_syncookies": true, "net.ipv6.conf.all.disable_ipv6": false, "kernel.shmmax": false, "net.core.somaxconn": false} {
		if errs := checkTask(runner.TaskProcess{Sysctls: map[string]string{k: "1"}}); (len(errs) == 0) != ok {
			t.Errorf("sysctl %s: %v", k, errs)
		}
	}
}

// A process that starts in a descriptor of the runtime's could be outside.
func TestWorkDirIsNotInProc(t *testing.T) {
	for dir, ok := range map[string]bool{"": true, "/": true, "/process": true, "/proc": false, "/proc/self/fd/8": false, "//x/../proc/self": false, "/proc/": false} {
		if errs := checkTask(runner.TaskProcess{WorkDir: dir}); (len(errs) == 0) != ok {
			t.Errorf("work_dir %q: %v", dir, errs)
		}
		spec := fakeSpec()
		spec.Task.WorkDir = ""
		err := checkImage(spec, imageFacts{WorkDir: dir}, hostFacts{})
		if (err == nil) != ok {
			t.Errorf("image's %q: %v", dir, err)
		}
		spec.Task.WorkDir = "/home"
		if err := checkImage(spec, imageFacts{WorkDir: dir}, hostFacts{}); err != nil {
			t.Errorf("image's %q with a work_dir: %v", dir, err)
		}
	}
}

// D-10a, T43: targets and sources of mounts.
func TestD10aMountTargets(t *testing.T) {
	for target, ok := range map[string]bool{
		"/alloc": true, "/etc/nginx/nginx.conf": true, "/tmp": true, "/devel": true, "/etc/hosts.d": true,
		"/": false, "relative": false, "/a/../b": false, "/proc": false, "/proc/sys": false, "/dev/shm": false, "/sys/x": false,
		"/.wardyn": false, "/.wardyn/wardyn-rec": false, "/etc/resolv.conf": false, "/etc/hosts": false, "/etc": false,
	} {
		if err := checkTarget(target); (err == nil) != ok {
			t.Errorf("%q: %v", target, err)
		}
	}
	spec := runner.SandboxSpec{Task: &runner.TaskProcess{
		Mounts: []runner.TaskMount{{Source: "/a", Target: "/x"}, {Source: "/b", Target: "/x"}},
		Tmpfs:  []runner.Tmpfs{{Target: "/x"}},
	}}
	if errs := checkMounts(spec, hostFacts{}, "runc", nil); len(errs) != 2 {
		t.Errorf("clashes: %v", errs)
	}
	for _, m := range []runner.TaskMount{{Source: "rel", Target: "/x"}, {Source: "/a/../b", Target: "/x"}, {Source: "/a", Target: "/x", Propagation: "private"}} {
		if err := checkTaskMount(m); err == nil {
			t.Errorf("%+v passes", m)
		}
	}
}

// T43: a read-only bind that would leave something below it writable.
func TestT43ReadOnlySubmounts(t *testing.T) {
	dir := t.TempDir()
	host := hostFacts{Major: 28, RecursiveReadOnly: []string{"runc"}}
	if err := checkSource(runner.Mount{Source: dir, ReadOnly: true}, hostFacts{Major: 20}, "runc", nil); err != nil {
		t.Errorf("a folder without mounts: %v", err)
	}
	mountTmpfs(t, dir)
	if err := checkSource(runner.Mount{Source: dir, ReadOnly: true}, hostFacts{Major: 20}, "runc", nil); err == nil {
		t.Error("an old engine would leave the mount below writable")
	}
	if err := checkSource(runner.Mount{Source: dir, ReadOnly: true}, host, "runc", nil); err != nil {
		t.Errorf("an engine that can: %v", err)
	}
	if err := checkSource(runner.Mount{Source: dir, ReadOnly: true}, host, "runsc", nil); err == nil {
		t.Error("a runtime that cannot would leave the mount below writable")
	}
	if err := checkSource(runner.Mount{Source: dir}, hostFacts{Major: 20}, "runc", nil); err != nil {
		t.Errorf("a writable bind: %v", err)
	}
	// K33: what this host learned at run time.
	if err := checkSource(runner.Mount{Source: dir}, host, "runc", []string{dir}); err == nil {
		t.Error("a denied root passes")
	}
}

// K33: the engine's own socket is denied, and what it lies in, whatever its name.
func TestK33TheEnginesSocketIsDenied(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "engine", "s")
	if err := errors.Join(os.Mkdir(filepath.Dir(socket), 0o700), os.WriteFile(socket, nil, 0o600), os.Mkdir(filepath.Join(dir, "other"), 0o700)); err != nil {
		t.Fatal(err)
	}
	r := newScripted(t, &scripted{})
	r.opts.Endpoint = "unix://" + socket
	for source, denied := range map[string]bool{socket: true, filepath.Dir(socket): true, dir: true, filepath.Join(dir, "other"): false} {
		err := checkSource(runner.Mount{Source: source}, hostFacts{Major: 20}, "runc", r.deniedBeside(hostFacts{}))
		if errors.Is(err, runner.ErrDenied) != denied {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// K38, S91: io_uring is closed at CC1, by our filter where the engine's is not.
func TestK38IOUringIsClosed(t *testing.T) {
	for _, tc := range []struct {
		runtime string
		major   int
		own     bool
	}{{"runc", 20, true}, {"runc", 24, true}, {"runc", 25, false}, {"runsc", 20, false}, {"kata", 20, false}} {
		own := slices.ContainsFunc(securityOpt(tc.runtime, hostFacts{Major: tc.major}), func(s string) bool { return strings.HasPrefix(s, "seccomp={") })
		if own != tc.own {
			t.Errorf("%+v: own filter %v", tc, own)
		}
	}
	if p := seccompProfile(); strings.Contains(p, "io_uring") || !strings.Contains(p, `"SCMP_ACT_ERRNO"`) || !strings.Contains(p, `"openat2"`) {
		t.Error("not the filter that is meant")
	}
}

// K35: an engine without AppArmor takes a profile's name and runs the task without
// it, so the task is refused.
func TestK35ProfileWithoutAppArmor(t *testing.T) {
	for _, there := range []bool{true, false} {
		errs := checkProfile(runner.TaskProcess{AppArmor: "strict"}, hostFacts{AppArmor: there})
		if err := errors.Join(errs...); (err == nil) != there || err != nil && (!errors.Is(err, runner.ErrUnsupported) || !strings.Contains(err.Error(), `apparmor_profile "strict"`)) {
			t.Errorf("AppArmor %v: %v", there, err)
		}
	}
	if errs := checkProfile(runner.TaskProcess{}, hostFacts{}); len(errs) > 0 {
		t.Errorf("without a profile: %v", errs)
	}
}
