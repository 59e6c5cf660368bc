package doctor

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var probed = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// healthy is a node with nothing amiss.
func healthy() Facts {
	return Facts{
		Endpoint: "unix:///run/docker.sock",
		Engine: Engine{
			Version: "28.5.2", Containerd: "1.7.28", Runc: "1.3.3", Kernel: "6.12.0", StorageDriver: "overlay2", Root: "/var/lib/docker",
			CgroupDriver: "systemd", CgroupVersion: "2", DefaultRuntime: "runc", Seccomp: true, AppArmor: true, IsolatedGateway: true,
			Runtimes: []Runtime{{Name: "runc"}, {Name: "runsc", Path: "/usr/bin/runsc", Args: []string{"--overlay2=none"}}},
		},
		Host: Host{Root: true, BridgeFilter: true, Systemd: true},
		Classes: []Class{
			{Name: "CC1", Offered: true, Runtime: "runc", Works: true, Probed: probed},
			{Name: "CC2", Offered: true, Runtime: "runsc", Works: true, Probed: probed},
			{Name: "CC3", Offered: true, Reason: "CC3 needs a microVM runtime; register one"},
		},
		Pools: []Pool{{Option: "subnet_pool", Range: netip.MustParsePrefix("10.213.0.0/16"), Used: 3, Total: 8192}},
		Disks: []Disk{{Of: "data_dir", Path: "/var/lib/wardyn", FreeMiB: lowMiB, TotalMiB: 100000, FreeInodes: lowInodes}},
		Data:  DataDir{Path: "/var/lib/wardyn"},
	}
}

func TestNothingAmiss(t *testing.T) {
	found := Examine(healthy())
	if Worst(found) != Info {
		t.Errorf("%+v", found)
	}
	for _, id := range []string{"engine", "isolation", "class", "class-absent", "pool", "disk", "data-dir"} {
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.ID == id }) {
			t.Errorf("no finding %s", id)
		}
	}
}

// fault is a node with one thing amiss, and the finding that it must have.
type fault struct {
	change func(*Facts)
	id     string
	want   Severity // "" for none
	text   string
}

// checkFindings: each fault is found on its own, with its severity, its cause and
// a remedy.
func checkFindings(t *testing.T, all map[string]fault) {
	t.Helper()
	for name, c := range all {
		f := healthy()
		c.change(&f)
		found := Examine(f)
		i := slices.IndexFunc(found, func(f Finding) bool { return f.ID == c.id })
		switch {
		case c.want == "":
			if i >= 0 {
				t.Errorf("%s: %+v", name, found[i])
			}
		case i < 0:
			t.Errorf("%s: no finding %s in %+v", name, c.id, found)
		case found[i].Severity != c.want || !strings.Contains(found[i].Text, c.text) || found[i].Remedy == "" && c.want != Info:
			t.Errorf("%s: %+v", name, found[i])
		}
		if c.want == Error && (Worst(found) != Error || found[0].Severity != Error) {
			t.Errorf("%s: the error does not come first: %+v", name, found)
		}
	}
}

// TestEngineFindings: what is amiss with the engine and what it has below it (K38).
func TestEngineFindings(t *testing.T) {
	checkFindings(t, map[string]fault{
		"config": {func(f *Facts) { f.Config = []string{"slots: no"} }, "config", Error, "slots: no"},
		"file": {func(f *Facts) {
			f.Files = []File{{Option: "auth.config", Path: "/ok"}, {Option: "ca_file", Path: "/x", Fault: "it is not there"}}
		}, "file", Warning, "/x: it is not there"},
		"needed file": {func(f *Facts) {
			f.Files = []File{{Option: "audit_dir", Path: "/x", Fault: "has mode 0755", Needed: true}}
		}, "file", Error, "/x: has mode 0755"},
		"files in order":          {func(f *Facts) { f.Files = []File{{Option: "ca_file", Path: "/x"}} }, "file", "", ""},
		"not root":                {func(f *Facts) { f.Host.Root = false }, "not-root", Warning, "root"},
		"engine away":             {func(f *Facts) { f.EngineErr = "refused" }, "engine-away", Error, "/run/docker.sock does not answer: refused"},
		"resolver 20.10":          {func(f *Facts) { f.Engine.Version = "20.10.24+dfsg1" }, "cve-2024-29018", Warning, "CVE-2024-29018"},
		"resolver 23.0.10":        {func(f *Facts) { f.Engine.Version = "23.0.10" }, "cve-2024-29018", Warning, "23.0.10"},
		"resolver 23.0.11":        {func(f *Facts) { f.Engine.Version = "23.0.11" }, "cve-2024-29018", "", ""},
		"resolver 24.0.9":         {func(f *Facts) { f.Engine.Version = "24.0.9" }, "cve-2024-29018", Warning, "24.0.9"},
		"resolver 25.0.4":         {func(f *Facts) { f.Engine.Version = "25.0.4" }, "cve-2024-29018", Warning, "25.0.4"},
		"resolver 25.0.5":         {func(f *Facts) { f.Engine.Version = "25.0.5" }, "cve-2024-29018", "", ""},
		"resolver 26.0.0":         {func(f *Facts) { f.Engine.Version = "26.0.0" }, "cve-2024-29018", "", ""},
		"resolver unreadable":     {func(f *Facts) { f.Engine.Version = "dev" }, "cve-2024-29018", "", ""},
		"runc 1.1.11":             {runc("1.1.11"), "cve-2024-21626", Warning, "1.1.11"},
		"runc 1.1.12":             {runc("1.1.12"), "cve-2024-21626", "", ""},
		"runc 1.1.15":             {runc("1.1.15"), "cve-2025-31133", Warning, "1.1.15"},
		"runc 1.2.7":              {runc("1.2.7"), "cve-2025-31133", Warning, "1.2.7"},
		"runc 1.2.8":              {runc("1.2.8"), "cve-2025-31133", "", ""},
		"runc 1.3.2":              {runc("1.3.2+ds1"), "cve-2025-31133", Warning, "1.3.2"},
		"runc 1.4":                {runc("1.4.0"), "cve-2025-31133", "", ""},
		"runc unknown":            {runc(""), "cve-2025-31133", "", ""},
		"old":                     {func(f *Facts) { f.Engine.Version = "19.03.15" }, "engine-old", Warning, "19.03.15"},
		"not old":                 {func(f *Facts) { f.Engine.Version = "20.10.0" }, "engine-old", "", ""},
		"other storage":           {func(f *Facts) { f.Engine.StorageDriver = "overlayfs" }, "image-links", Warning, "overlayfs"},
		"userns":                  {func(f *Facts) { f.Engine.UserNamespaces = true }, "userns", Error, "userns-remap"},
		"no cgroups":              {func(f *Facts) { f.Engine.CgroupDriver = "none" }, "cgroup-none", Error, "no limit"},
		"cgroupfs beside systemd": {func(f *Facts) { f.Engine.CgroupDriver = "cgroupfs" }, "cgroup-driver", Warning, "systemd"},
		"cgroupfs alone":          {func(f *Facts) { f.Engine.CgroupDriver, f.Host.Systemd = "cgroupfs", false }, "cgroup-driver", "", ""},
		"cgroupfs v1":             {func(f *Facts) { f.Engine.CgroupDriver, f.Engine.CgroupVersion = "cgroupfs", "1" }, "cgroup-driver", "", ""},
		"no seccomp":              {func(f *Facts) { f.Engine.Seccomp = false }, "seccomp", Error, "no system calls"},
		"no LSM":                  {func(f *Facts) { f.Engine.AppArmor = false }, "no-lsm", Info, "AppArmor"},
	})
}

// TestRuntimeFindings: what is amiss with the registered runtimes (K1, K24).
func TestRuntimeFindings(t *testing.T) {
	checkFindings(t, map[string]fault{
		"no runc":                {func(f *Facts) { f.Engine.Runtimes = f.Engine.Runtimes[1:] }, "no-runc", Error, "sidecar"},
		"other default":          {func(f *Facts) { f.Engine.DefaultRuntime = "crun" }, "default-runtime", Info, "crun"},
		"runtime missing":        {func(f *Facts) { f.Engine.Runtimes[1].Missing = true }, "runtime-missing", Warning, "/usr/bin/runsc"},
		"host sockets":           {args("--host-uds=open"), "host-uds", Error, "sockets"},
		"host sockets, plain":    {args("--host-uds"), "host-uds", Error, "sockets"},
		"host sockets off":       {args("-host-uds=none"), "host-uds", "", ""},
		"host sockets, old word": {args("--fsgofer-host-uds=true"), "host-uds", Error, "sockets"},
		"no limits":              {args("--ignore-cgroups"), "ignore-cgroups", Error, "limit"},
		"limits":                 {args("--ignore-cgroups=false"), "ignore-cgroups", "", ""},
		"host's stack":           {args("--network=host"), "gvisor-network", Warning, "network stack"},
		"overlay":                {args("--debug"), "overlay2", Warning, "snapshot"},
		"other overlay":          {args("--overlay2=root:self"), "overlay2", Warning, "snapshot"},
		"kvm without":            {args("--platform=kvm"), "gvisor-kvm", Warning, "/dev/kvm"},
		"not gVisor":             {func(f *Facts) { f.Engine.Runtimes[1].Name, f.Engine.Runtimes[1].Args = "kata", nil }, "overlay2", "", ""},
	})
}

// TestClassFindings: why a class is not offered, or not all that it promises (K16).
func TestClassFindings(t *testing.T) {
	checkFindings(t, map[string]fault{
		"broken class": {func(f *Facts) {
			f.Classes[1].Works, f.Classes[1].Reason = false, "cannot run with network enabled in root network namespace"
		}, "class-broken", Warning, "root network namespace"},
		"probes left":    {func(f *Facts) { f.ProbesLeft = "wardyn_probe_x: deadline exceeded" }, "probes-left", Warning, "wardyn_probe_x"},
		"unprobed class": {func(f *Facts) { f.Classes[1].Works, f.Classes[1].Probed = false, time.Time{} }, "class-unprobed", Info, "runsc"},
		"closed class":   {func(f *Facts) { f.Classes[1].Offered = false }, "class-closed", Info, "operator"},
		"absent class":   {func(f *Facts) {}, "class-absent", Info, "microVM"},
		"pinned class":   {func(f *Facts) { f.Classes[2].Pin = "kata-x" }, "class-absent", Warning, "microVM"},
		"no class":       {func(f *Facts) { f.Classes[0].Works, f.Classes[1].Offered = false, false }, "no-class", Error, "no class"},
		"none yet": {func(f *Facts) {
			f.Classes[0].Works, f.Classes[0].Probed, f.Classes[1].Offered = false, time.Time{}, false
		}, "no-class", "", ""},
		"bridge filter": {func(f *Facts) { f.Host.BridgeFilter = false }, "bridge-filter", Warning, "bridge-nf-call-iptables"},
	})
}

// TestRoomFindings: address ranges, data dir and disk (K40).
func TestRoomFindings(t *testing.T) {
	rng := netip.MustParsePrefix
	checkFindings(t, map[string]fault{
		"pool taken":       {func(f *Facts) { f.Pools[0].Elsewhere = []Range{{Prefix: rng("10.0.0.0/8"), Holder: "a route"}} }, "pool-taken", Error, "a route, 10.0.0.0/8"},
		"pool shared":      {func(f *Facts) { f.Pools[0].Elsewhere = []Range{{Prefix: rng("10.213.4.0/24"), Holder: "a route"}} }, "pool-shared", Warning, "10.213.4.0/24 (a route)"},
		"pool among us":    {func(f *Facts) { f.Pools[0].Elsewhere = []Range{{Prefix: rng("10.213.4.0/29"), Alike: true}} }, "pool-shared", "", ""},
		"pool full":        {func(f *Facts) { f.Pools[0].Used = 8192 }, "pool-full", Error, "8192 of 8192"},
		"pool nearly full": {func(f *Facts) { f.Pools[0].Used = 8191 }, "pool-full", "", ""},
		"pool of one network": {func(f *Facts) {
			f.Pools[0].Single, f.Pools[0].Used, f.Pools[0].Total = true, 1, 1
		}, "pool-full", "", ""},
		"data dir":      {func(f *Facts) { f.Data.Fault = "has mode 0755" }, "data-dir", Error, "0755"},
		"disk full":     {func(f *Facts) { f.Disks[0].FreeMiB = fullMiB - 1 }, "disk-full", Error, "127 MiB"},
		"disk low":      {func(f *Facts) { f.Disks[0].FreeMiB = lowMiB - 1 }, "disk-low", Warning, "2047 MiB"},
		"few files":     {func(f *Facts) { f.Disks[0].FreeInodes = lowInodes - 1 }, "disk-inodes", Warning, "9999"},
		"no file count": {func(f *Facts) { f.Disks[0].FreeInodes, f.Disks[0].NoInodeCount = 0, true }, "disk-inodes", "", ""},
		"no disk":       {func(f *Facts) { f.Disks[0].Err = "input/output error" }, "disk-unknown", Warning, "input/output"},
	})
}

func runc(version string) func(*Facts) {
	return func(f *Facts) { f.Engine.Runc = version }
}

func args(a ...string) func(*Facts) {
	return func(f *Facts) { f.Engine.Runtimes[1].Args = a }
}
