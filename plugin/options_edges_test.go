package plugin

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// R34: an empty entrypoint asks for nothing, and what engines call a reset is one.
func TestR34EmptyEntrypoints(t *testing.T) {
	for _, c := range []struct {
		written any
		want    []string
	}{
		{nil, nil}, {"", nil}, {[]any{}, []string{}}, {[]any{""}, []string{}}, {"/bin/sh", []string{"/bin/sh"}},
	} {
		p, err := planOf(t, map[string]any{"command": "x", "entrypoint": c.written}, closedHost)
		if err != nil {
			t.Errorf("%#v: %v", c.written, err)
			continue
		}
		got := p.Spec.Sandbox.Task.Entrypoint
		if !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%#v: %#v, want %#v", c.written, got, c.want)
		}
	}
	if _, err := planOf(t, map[string]any{"idle": true, "entrypoint": ""}, closedHost); err != nil {
		t.Error(err)
	}
}

// What asks for nothing is not refused: templates of job files leave it behind.
func TestOptionsThatAskForNothing(t *testing.T) {
	p, err := planOf(t, map[string]any{
		"shm_size": 0, "auth": map[string]any{"username": "", "password": ""},
	}, closedHost)
	if err != nil || p.Spec.Sandbox.Task.ShmMiB != 0 || p.Spec.Sandbox.Task.Image.Auth != nil {
		t.Errorf("%v", err)
	}
}

// K16: a value that the kernel would not take is refused by its key, before the
// runtime finds out.
func TestK16SysctlValues(t *testing.T) {
	for value, key := range map[string]string{
		"x": "net.ipv4.tcp_fin_timeout", "-1": "net.ipv4.tcp_retries2", "0": "net.ipv4.tcp_syn_retries", "1 2": "net.ipv4.tcp_keepalive_time",
		"2000 1000": "net.ipv4.ip_local_port_range", "1024": "net.ipv4.ip_local_port_range", "1024 65536": "net.ipv4.ip_local_port_range", "1 2\nx": "net.ipv4.ip_local_port_range",
	} {
		_, err := planOf(t, map[string]any{"sysctl": map[string]any{key: value}}, closedHost)
		if err == nil || !strings.Contains(err.Error(), "sysctl."+key) || !strings.Contains(err.Error(), "from") {
			t.Errorf("%s = %q: %v", key, value, err)
		}
	}
	if _, err := planOf(t, map[string]any{"sysctl": []any{
		map[string]any{"net.ipv4.ip_local_port_range": "1024\t65535"}, map[string]any{"net.ipv4.tcp_keepalive_time": 7200},
		map[string]any{"net.ipv4.ip_unprivileged_port_start": "0"},
	}}, closedHost); err != nil {
		t.Error(err)
	}
}

// K35: the operator's list is of names; what is at them on the node counts too,
// also for what a device plugin reserves.
func TestK35DevicesAreLookedAt(t *testing.T) {
	tc, c := taskOf(t, map[string]any{"confinement": "CC1", "devices": []any{map[string]any{"host_path": "/dev/fuse"}}})
	tc.Devices = []*driverpb.Device{{HostPath: "/dev/dri/renderD128", TaskPath: "/dev/dri/renderD128"}}
	fx := node
	fx.CheckDevice = func(path string) error { return errors.Join(errors.New("looked at "+path), runner.ErrDenied) }
	_, err := planTask(tc, c, hostOf(t, openLimits), fx)
	for _, words := range []string{`devices = "/dev/fuse": looked at /dev/fuse`, `device = "/dev/dri/renderD128": looked at /dev/dri/renderD128`} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q in it", err, words)
		}
	}
}

// A block that is written as something else is named as its author knows it: a
// decoder speaks of the JSON that a client makes of a job file.
func TestBlocksThatAreNone(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		want   string
	}{
		{map[string]any{"egress": "x"}, "egress: it is a block; write egress { ... }"},
		{map[string]any{"inject": map[string]any{"host": "a.example"}}, `inject: it is a block; write inject "NAME" { ... }`},
		{map[string]any{"egress": []any{map[string]any{}, map[string]any{}}}, "egress: the block is there more than once; write one block with all of it"},
	} {
		c.config["image"] = "busybox:1"
		r := ReviewTask(Draft{Name: "t", Config: c.config}, closedHost, NodeView{Unasked: true, Classes: node.Classes})
		if !slices.ContainsFunc(r.Faults, func(f Fault) bool { return f.String() == c.want }) {
			t.Errorf("%v: %v, want %q", c.config, r.Faults, c.want)
		}
	}
}

// K35: what a device plugin will reserve is not known before placement, so a
// review judges by what the operator lets tasks have at all.
func TestK35DevicesOfADraft(t *testing.T) {
	review := func(h HostConfig, class string) Review {
		config := map[string]any{"image": "busybox:1", "confinement": class}
		return ReviewTask(Draft{Name: "t", Config: config, Devices: []string{"nvidia/gpu"}}, h, NodeView{Unasked: true, Classes: node.Classes})
	}
	open := hostOf(t, openLimits)
	if r := review(open, "CC1"); len(r.Faults) > 0 {
		t.Errorf("%v", r.Faults)
	}
	for words, r := range map[string]Review{
		`device = "nvidia/gpu": the operator does not allow it`: review(closedHost, "CC1"),
		"devices: under CC2": review(open, "CC2"),
	} {
		if len(r.Faults) != 1 || !strings.HasPrefix(r.Faults[0].String(), words) {
			t.Errorf("%v, want %q", r.Faults, words)
		}
	}
}

// A GPU that only a variable tells of is not there, and an event says so.
func TestGPUThatIsNotHandedOver(t *testing.T) {
	notes := func(config map[string]any, h HostConfig) string {
		config["confinement"] = "CC1"
		tc, c := taskOf(t, config)
		tc.Env = map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-0"}
		p, err := planTask(tc, c, h, node)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(p.Notes, "\n")
	}
	if n := notes(map[string]any{}, closedHost); !strings.Contains(n, "NVIDIA_VISIBLE_DEVICES names GPUs") || !strings.Contains(n, "allow_devices") {
		t.Errorf("notes %q", n)
	}
	for name, n := range map[string]string{
		"its nodes":           notes(map[string]any{"devices": map[string]any{"host_path": "/dev/fuse"}}, hostOf(t, openLimits)),
		"a runtime of theirs": notes(map[string]any{}, hostOf(t, map[string]any{"confinement": map[string]any{"runtimes": map[string]any{"CC1": "nvidia"}}})),
	} {
		if strings.Contains(n, "NVIDIA") {
			t.Errorf("with %s: %q", name, n)
		}
	}
}

// K35: what a sandbox cannot do without is refused by its option, before an init
// dies of it.
func TestK35LeastLimits(t *testing.T) {
	if _, err := planOf(t, map[string]any{"pids_limit": 31}, closedHost); err == nil || !strings.Contains(err.Error(), "pids_limit = 31: ") || !strings.Contains(err.Error(), "write 32 or more") {
		t.Errorf("%v", err)
	}
	if p, err := planOf(t, map[string]any{"pids_limit": 32}, closedHost); err != nil || p.Spec.Sandbox.Resources.PidsLimit != 32 {
		t.Errorf("%v", err)
	}
	if _, err := hostConfig(operator(t, map[string]any{"max_pids": 5})); err == nil || !strings.Contains(err.Error(), "max_pids = 5: ") {
		t.Errorf("%v", err)
	}
	tc, c := taskOf(t, map[string]any{})
	memory := &driverpb.AllocatedMemoryResources{MemoryMb: 10}
	tc.Resources = &driverpb.Resources{AllocatedResources: &driverpb.AllocatedTaskResources{Memory: memory}}
	if _, err := planTask(tc, c, closedHost, node); err == nil || !strings.Contains(err.Error(), "resources.memory = 10: a sandbox needs 16 MiB") {
		t.Errorf("%v", err)
	}
	memory.MemoryMaxMb = 16
	if _, err := planTask(tc, c, closedHost, node); err != nil {
		t.Error(err)
	}
}

// TestK43CapsOfAnotherUser: without root's id a capability stays in the bounding
// set, and an event says so.
func TestK43CapsOfAnotherUser(t *testing.T) {
	h := closedHost
	h.AllowCaps = []string{"CHOWN"}
	for user, want := range map[string]bool{"": false, "root": false, "0:7": false, "agent": true, "1000:7": true} {
		tc, c := taskOf(t, map[string]any{"cap_add": []any{"CHOWN"}})
		tc.User = user
		h.Limits.Groups = []int64{7}
		p, err := planTask(tc, c, h, node)
		if err != nil || slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasPrefix(n, "cap_add has no effect") }) != want {
			t.Errorf("%q: %q, %v", user, p.Notes, err)
		}
	}
}

// K16: gVisor's network has no such settings, and an event says so.
func TestK16SysctlsUnderGVisor(t *testing.T) {
	for class, want := range map[string]bool{"CC1": false, "CC2": true} {
		p, err := planOf(t, map[string]any{"confinement": class, "sysctl": map[string]any{"net.ipv4.tcp_retries2": 5}}, closedHost)
		if err != nil || slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasPrefix(n, "sysctl has no effect") }) != want {
			t.Errorf("%s: %q, %v", class, p.Notes, err)
		}
	}
}

// The words of podman's driver for the log are taken as docker's.
func TestLoggingInPodmansWords(t *testing.T) {
	written := map[string]any{"driver": "json-file", "options": []any{map[string]any{"max-size": "5m"}, map[string]any{"max-file": 3}}}
	p, err := planOf(t, map[string]any{"logging": written}, closedHost)
	if err != nil || p.Spec.Sandbox.Task.Log != (runner.LogRotation{SizeMiB: 5, Files: 3}) {
		t.Errorf("%+v, %v", p.Spec.Sandbox.Task, err)
	}
	_, err = planOf(t, map[string]any{"logging": map[string]any{"driver": "journald", "options": []any{map[string]any{"tag": "x"}}}}, closedHost)
	for _, words := range []string{`logging.driver = "journald": `, "logging.options.tag: "} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	if _, err := planOf(t, map[string]any{"devices": []any{"/dev/fuse:/dev/f:rw:x"}}, closedHost); err == nil || !strings.Contains(err.Error(), "devices") {
		t.Errorf("a device of four parts: %v", err)
	}
}
