package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// openLimits is an operator who lists some of everything.
var openLimits = map[string]any{
	"allow_devices": []any{"/dev/fuse", "/dev/dri/render*"}, "allow_groups": []any{44, "1001"},
	"apparmor_profiles": []any{"wardyn-strict"}, "seccomp_profiles": []any{map[string]any{"strict": "/etc/wardyn/strict.json"}},
	"extra_labels": []any{"job_*", "node_name"},
}

// K35: real-time priorities are the operator's to give, as the capability is:
// a cap on CPU time does not hold such a process.
func TestK35RealTimeNeedsSysNice(t *testing.T) {
	nice := hostOf(t, map[string]any{"allow_caps": []any{"SYS_NICE"}})
	for _, c := range []struct {
		limit any
		host  HostConfig
		ok    bool
	}{
		{"99", closedHost, false}, {"0:1", closedHost, false}, {"-1", closedHost, false}, {"0", closedHost, true},
		{"99", hostOf(t, openLimits), false}, {"99", nice, true}, {"-1", nice, true},
	} {
		_, err := planOf(t, map[string]any{"ulimit": map[string]any{"rtprio": c.limit, "nofile": "1024"}}, c.host)
		if (err == nil) != c.ok || err != nil && (!strings.Contains(err.Error(), "ulimit.rtprio") || !strings.Contains(err.Error(), "allow_caps")) {
			t.Errorf("rtprio = %v: %v", c.limit, err)
		}
	}
}

// K35, D-9: devices, groups and profiles of the operator's lists, in every
// spelling, and the limits under their usual names.
func TestK35LimitsAndProfiles(t *testing.T) {
	h := hostOf(t, openLimits)
	device := map[string]any{"host_path": "/dev/fuse", "container_path": "/dev/f", "cgroup_permissions": "rwm"}
	want := []runner.Device{{Host: "/dev/fuse", Target: "/dev/f", Permissions: "rw"}}
	for name, v := range map[string]any{"block": []any{device}, "map": device, "list of strings": []any{"/dev/fuse:/dev/f:rwm"}} {
		p, err := planOf(t, map[string]any{"confinement": "CC1", "devices": v}, h)
		if err != nil || !slices.Equal(p.Spec.Sandbox.Task.Devices, want) {
			t.Errorf("devices as %s: %v, %v", name, p.Spec.Sandbox.Task, err)
		}
	}
	tc, c := taskOf(t, map[string]any{
		"confinement": "CC1", "group_add": []any{"44"}, "security_opt": []any{"no-new-privileges", "apparmor=wardyn-strict", "seccomp:strict"},
		"stop_signal": "SIGINT", "cpuset_cpus": "0-1,3", "oom_score_adj": "700", "healthchecks": []any{map[string]any{"disable": "true"}},
		"logging": []any{map[string]any{"type": "json-file", "config": []any{map[string]any{"max-size": "5m"}, map[string]any{"max-file": 3}}}},
	})
	tc.Devices = []*driverpb.Device{{HostPath: "/dev/dri/renderD128", TaskPath: "/dev/dri/renderD128", CgroupPermissions: "r"}}
	tc.JobName, tc.NodeName = "web", "n1"
	p, err := planTask(tc, c, h, node)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Spec.Sandbox.Task
	if len(got.Devices) != 1 || got.Devices[0].Permissions != "r" || !slices.Equal(got.GroupAdd, []string{"44"}) || got.AppArmor != "wardyn-strict" ||
		got.SeccompFile != "/etc/wardyn/strict.json" || got.CpusetCpus != "0-1,3" || got.OOMScoreAdj != 700 || got.StopSignal != "SIGINT" || got.Log != (runner.LogRotation{SizeMiB: 5, Files: 3}) {
		t.Errorf("%+v", got)
	}
	labels := p.Spec.Sandbox.Labels
	if labels["wardyn.job_name"] != "web" || labels["wardyn.node_name"] != "n1" || labels["wardyn.job_id"] != "j" {
		t.Errorf("labels %v", labels)
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(k string) bool { return strings.HasPrefix(k, "com.hashicorp.nomad.") || k == "wardyn.task_name" }) {
		t.Errorf("labels %v", labels)
	}
	p, err = planOf(t, map[string]any{"confinement": "CC1", "apparmor_profile": "wardyn-strict", "oom_score_adj": 10, "network_mode": "none"}, h)
	if err != nil || p.Spec.Sandbox.Task.AppArmor != "wardyn-strict" || !p.Spec.Sandbox.Task.NoNetwork || len(p.Notes) == 0 || !strings.Contains(p.Notes[0], "at least 300") {
		t.Errorf("%+v, %v", p.Notes, err)
	}
}

// What asks for more is refused with the option that would open it.
func TestK35LimitRefusals(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		open   bool
		want   string
	}{
		{map[string]any{"devices": []any{map[string]any{"host_path": "/dev/fuse"}}}, false, "allow_devices"},
		{map[string]any{"devices": []any{map[string]any{"host_path": "/dev/fuse/../mem"}}}, true, "allow_devices"},
		{map[string]any{"devices": []any{map[string]any{"host_path": "/dev/dri/x"}}}, true, "allow_devices"},
		{map[string]any{"devices": []any{map[string]any{"host_path": "/dev/fuse", "container_path": "/etc/x"}}}, true, "below /dev"},
		{map[string]any{"devices": []any{map[string]any{"host_path": "/dev/fuse", "cgroup_permissions": "rx"}}}, true, "cgroup_permissions"},
		{map[string]any{"devices": []any{map[string]any{}}}, true, "missing"},
		{map[string]any{"devices": "x"}, true, "blocks"},
		{map[string]any{"confinement": "CC2", "devices": []any{map[string]any{"host_path": "/dev/fuse"}}}, true, "kernel of its own"},
		{map[string]any{"confinement": "CC2", "apparmor_profile": "wardyn-strict"}, true, "kernel of its own"},
		{map[string]any{"group_add": []any{"44"}}, false, "allow_groups"},
		{map[string]any{"group_add": []any{"0"}}, true, "allow_groups"},
		{map[string]any{"group_add": []any{"docker"}}, true, "number of a group"},
		{map[string]any{"apparmor_profile": "unconfined"}, true, "apparmor_profiles"},
		{map[string]any{"security_opt": []any{"seccomp=unconfined"}}, true, "seccomp_profiles"},
		{map[string]any{"security_opt": []any{"seccomp=/local/mine.json"}}, true, "a job's own"},
		{map[string]any{"security_opt": []any{"apparmor=unconfined"}}, true, "apparmor_profiles"},
		{map[string]any{"security_opt": []any{"label=disable"}}, true, "driver's"},
		{map[string]any{"security_opt": []any{"no-new-privileges=false"}}, true, "always on"},
		{map[string]any{"stop_signal": "SIGNOPE"}, true, "stop_signal"},
		{map[string]any{"stop_signal": "pipe"}, true, "stop_signal"},
		{map[string]any{"stop_signal": "SIGSTOP"}, true, "stop_signal"},
		{map[string]any{"cpuset_cpus": "all"}, true, "no list of CPUs"},
		{map[string]any{"oom_score_adj": -1}, true, "0 to 1000"},
		{map[string]any{"oom_score_adj": 1001}, true, "0 to 1000"},
		{map[string]any{"logging": map[string]any{"type": "syslog"}}, true, "goes to Nomad"},
		{map[string]any{"logging": map[string]any{"driver": "gelf"}}, true, "goes to Nomad"},
		{map[string]any{"logging": map[string]any{"config": map[string]any{"tag": "x"}}}, true, "logging.config.tag"},
		{map[string]any{"logging": map[string]any{"config": map[string]any{"max-file": 1}}}, true, "max-file"},
		{map[string]any{"logging": map[string]any{"config": map[string]any{"max-size": "2g"}}}, true, "max-size"},
		{map[string]any{"healthchecks": map[string]any{"disable": false}}, true, "never run"},
		{map[string]any{"network_mode": "host"}, true, "egress.allow"},
		{map[string]any{"network_mode": "container:x"}, true, "egress.allow"},
		{map[string]any{"network_mode": "none", "repo": []any{map[string]any{"url": "https://a.example/x/y"}}}, true, "repo: with network_mode"},
		{map[string]any{"network_mode": "none", "egress": map[string]any{"allow": []any{"a.example"}}}, true, "no proxy"},
	} {
		h := HostConfig{}
		if c.open {
			h = hostOf(t, openLimits)
		}
		_, err := planOf(t, c.config, h)
		var f *faults
		if !errors.As(err, &f) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.config, err, c.want)
		}
	}
	tc, c := taskOf(t, map[string]any{"cpuset_cpus": "1"})
	tc.Resources = &driverpb.Resources{LinuxResources: &driverpb.LinuxResources{CpusetCpus: "2-3"}}
	tc.Devices = []*driverpb.Device{{HostPath: "/dev/nvidia0", TaskPath: "/dev/nvidia0", CgroupPermissions: "rwm"}}
	_, err := planTask(tc, c, closedHost, node)
	for _, words := range []string{"reserved the cores 2-3", "/dev/nvidia0", "allow_devices"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	for field, block := range map[string]map[string]any{
		"allow_devices":     {"allow_devices": []any{"/dev/*/x"}},
		"memory or disks":   {"allow_devices": []any{"/dev/sda"}},
		"or disks":          {"allow_devices": []any{"/dev/*"}},
		"allow_groups":      {"allow_groups": []any{0}},
		"apparmor_profiles": {"apparmor_profiles": []any{"unconfined"}},
		"seccomp_profiles":  {"seccomp_profiles": map[string]any{"x": "relative.json"}},
		"extra_labels":      {"extra_labels": []any{"alloc_id"}},
	} {
		if _, err := hostConfig(operator(t, block)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v: %v", block, err)
		}
	}
}

// What a task has by the operator's leave is told by explain, with who decided.
func TestSettingsOfPowers(t *testing.T) {
	block := map[string]any{"max_disk": 500}
	maps.Copy(block, openLimits)
	h := hostOf(t, block)
	tc, c := taskOf(t, map[string]any{
		"confinement": "CC1", "devices": map[string]any{"host_path": "/dev/fuse"}, "group_add": []any{"44"}, "security_opt": []any{"seccomp=strict"},
		"apparmor_profile": "wardyn-strict", "cpuset_cpus": "1", "oom_score_adj": 800, "network_mode": "none", "stop_signal": "int",
	})
	tc.Devices = []*driverpb.Device{{HostPath: "/dev/dri/renderD128", TaskPath: "/dev/dri/renderD128"}}
	j, f := judgeTask(tc, c, h, node)
	if err := f.err(); err != nil {
		t.Fatal(err)
	}
	got := map[string]Setting{}
	for _, s := range settings(tc, j, translate(tc, j.ask, j.given, j.class, h, node), h) {
		got[s.Name] = s
	}
	for name, want := range map[string]Setting{
		"device /dev/fuse": {Value: "/dev/fuse (rw)", By: ByAuthor}, "device /dev/dri/renderD128": {Value: "/dev/dri/renderD128 (rw)", By: ByNomad},
		"groups": {Value: "44", By: ByAuthor}, "AppArmor profile": {Value: "wardyn-strict", By: ByAuthor}, "seccomp profile": {Value: "strict.json", By: ByAuthor},
		"cores": {Value: "1", By: ByAuthor}, "oom_score_adj": {Value: "800", By: ByAuthor}, "network": {Value: "none", By: ByAuthor},
		"stop_signal": {Value: "SIGINT", By: ByAuthor}, "disk": {Value: "500 MiB", By: ByOperator},
	} {
		if s := got[name]; s.Value != want.Value || s.By != want.By {
			t.Errorf("%s: %+v, want %+v", name, s, want)
		}
	}
}

// K35: a name that is no capability's is refused with what was probably meant, in
// cap_drop as well, where it would be left in.
func TestNoSuchCapability(t *testing.T) {
	h := closedHost
	h.AllowCaps = []string{"CHOWN"}
	for _, c := range []struct{ option, name, want string }{
		{"cap_drop", "cap_chwon", `cap_drop = "cap_chwon": there is no such capability; did you mean "CHOWN"?`},
		{"cap_drop", "NET-RAW", `cap_drop = "NET-RAW": there is no such capability; did you mean "NET_RAW"?`},
		{"cap_drop", "everything", `cap_drop = "everything": there is no such capability; remove it`},
		{"cap_add", "CHWON", `cap_add = "CHWON": there is no such capability; did you mean "CHOWN"?`},
		{"cap_add", "all", `cap_add = "all": this capability is never given to a sandbox; remove it`},
		{"cap_drop", "all", ""}, {"cap_drop", "cap_net_raw", ""}, {"cap_drop", "CHECKPOINT_RESTORE", ""},
	} {
		_, err := planOf(t, map[string]any{c.option: []any{c.name}}, h)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	p, err := planOf(t, map[string]any{"cap_add": []any{"CHOWN"}, "cap_drop": []any{"ALL"}}, h)
	if err != nil || !slices.Equal(p.Spec.Sandbox.Task.CapAdd, []string{"CHOWN"}) {
		t.Errorf("%v", err)
	}
}
