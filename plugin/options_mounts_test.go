package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// Every spelling of a mount: blocks, one block, a map, a list of maps, and the
// options of it as a block or a map.
func TestMountSpellings(t *testing.T) {
	h := hostOf(t, map[string]any{"volumes": map[string]any{"named": "true", "paths": []any{"/srv/shared"}}})
	one := map[string]any{"type": "tmpfs", "target": "/scratch", "tmpfs_options": []any{map[string]any{"size": 1 << 26, "mode": 448}}}
	for name, config := range map[string]map[string]any{
		"block":        {"mount": []any{one}},
		"map":          {"mount": one},
		"list of maps": {"mounts": []any{map[string]any{"type": "tmpfs", "target": "/scratch", "tmpfs_options": map[string]any{"size": "64m", "mode": "0700"}}}},
		"tmpfs":        {"tmpfs": []any{"/scratch:size=64m,mode=700"}},
		"one tmpfs":    {"tmpfs": "/scratch:size=67108864,mode=0700,noexec"},
	} {
		p, err := planOf(t, config, closedHost)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := p.Spec.Sandbox.Task.Tmpfs
		if want := (runner.Tmpfs{Target: "/scratch", SizeMiB: 64, Mode: 0o700}); len(got) != 2 || got[1] != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, config := range []map[string]any{{"mount": nil}, {"mounts": nil}, {"mounts": []any{}}, {"tmpfs": nil}, {"mount": []any{}}} {
		if _, err := planOf(t, config, closedHost); err != nil {
			t.Errorf("%v: %v", config, err)
		}
	}
	p, err := planOf(t, map[string]any{
		"mount": []any{
			map[string]any{"type": "bind", "source": "local/conf", "target": "/etc/app", "readonly": "true", "bind_options": []any{map[string]any{"propagation": "rprivate"}}},
			map[string]any{"source": "cache", "target": "/cache", "volume_options": []any{map[string]any{"no_copy": true, "driver_config": []any{}}}},
			map[string]any{"type": "bind", "source": "/srv/shared/models", "target": "/workspace/models"},
		},
		"volumes": []any{"/srv/shared:/work/all:ro"},
	}, h)
	if err != nil {
		t.Fatal(err)
	}
	var binds []bind
	for _, b := range p.Stage {
		b.Source.Path = strings.TrimPrefix(b.Source.Path, "local/")
		binds = append(binds, b)
	}
	for i, want := range []bind{
		{Host: "/srv/shared", Target: "/work/all", ReadOnly: true}, {Target: "/etc/app", ReadOnly: true}, {Host: "/srv/shared/models", Target: "/workspace/models"},
	} {
		if i >= len(binds) || binds[i].Host != want.Host || binds[i].Target != want.Target || binds[i].ReadOnly != want.ReadOnly {
			t.Errorf("bind %d: %+v, want %+v", i, binds, want)
		}
	}
	mounts := p.Spec.Sandbox.Task.Mounts
	if got, want := mounts[len(mounts)-1], (runner.TaskMount{Volume: "wardyn-vol-default_00cache__", Target: "/cache", NoCopy: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("volume %+v, want %+v", got, want)
	}
}

// D-9, D-10a, K31, K33, T41, J: what no mount reaches, each with the option
// that would open it, or with none where nothing does.
func TestD9MountRefusals(t *testing.T) {
	open := map[string]any{"volumes": map[string]any{"named": true, "paths": []any{"/srv/shared"}}}
	mount := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return map[string]any{"mount": m}
	}
	for _, c := range []struct {
		config, host map[string]any
		want         string
	}{
		{mount("type", "bind", "source", "/srv/shared", "target", "/work/x"), map[string]any{}, "volumes.paths"},
		{mount("type", "bind", "source", "/srv/shared", "target", "/work/x"), map[string]any{"volumes": map[string]any{}}, "volumes.paths"},
		{map[string]any{"volumes": []any{"/srv/shared:/work/x"}}, map[string]any{"volumes": nil}, "volumes.paths"},
		{mount("type", "bind", "source", "/srv/sharedx", "target", "/work/x"), open, "volumes.paths"},
		{mount("type", "bind", "source", "/srv/shared/../../etc", "target", "/work/x"), open, "volumes.paths"},
		{mount("type", "bind", "source", "/srv", "target", "/work/x"), open, "volumes.paths"},
		{mount("type", "bind", "source", "/srv/shared/docker.sock", "target", "/work/x"), open, "controls the host"},
		{mount("type", "bind", "source", "/srv/shared", "target", "/etc/hosts"), open, "cannot be covered"},
		{mount("type", "bind", "source", "secrets", "target", "/x"), open, "mount_secrets"},
		{mount("type", "bind", "source", "local", "target", "/proc/x"), open, "kernel's"},
		{mount("type", "bind", "source", "local", "target", "/x", "bind_options", map[string]any{"propagation": "rshared"}), open, "rprivate"},
		{mount("type", "bind", "source", "local", "target", "/x", "tmpfs_options", map[string]any{"size": 1}), open, "go with type"},
		{mount("type", "volume", "source", "v", "target", "/x"), map[string]any{}, "volumes.named"},
		{mount("source", "v", "target", "/x", "volume_options", map[string]any{"driver_config": map[string]any{"name": "local", "options": map[string]any{"o": "bind", "device": "/"}}}), open, "driver_config"},
		{mount("source", "../v", "target", "/x"), open, "without slashes"},
		{mount("source", "", "target", "/x"), open, "needs a name"},
		{mount("type", "npipe", "target", "/x"), open, "want bind, tmpfs or volume"},
		{mount("type", "tmpfs", "target", "/dev/shm"), open, "kernel's"},
		{mount("type", "tmpfs", "source", "x", "target", "/x"), open, "no source"},
		{mount("type", "tmpfs", "target", "/x", "tmpfs_options", map[string]any{"mode": 99999}), open, "mode"},
		{mount("type", "tmpfs", "target", "/x", "tmpfs_options", map[string]any{"size": "lots"}), open, "no size"},
		{mount("type", "tmpfs", "target", "/x", "consistency", "z"), open, "consistency: no such option"},
		{map[string]any{"mounts": "x"}, open, "blocks or a list of maps"},
		{map[string]any{"tmpfs": []any{"/x:exec"}}, open, `option "exec"`},
		{map[string]any{"tmpfs": []any{"relative"}}, open, "absolute"},
		{map[string]any{"tmpfs": []any{"/x"}, "volumes": []any{"local/x:/x"}}, open, "already"},
		{map[string]any{"tmpfs": []any{"/x", "/x"}}, open, "already"},
		{map[string]any{"volumes": []any{"/var/run/docker.sock:/var/run/docker.sock"}}, open, "volumes.paths cannot list it"},
	} {
		_, err := planOf(t, c.config, hostOf(t, c.host))
		var f *faults
		if !errors.As(err, &f) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.config, err, c.want)
		}
	}
	for _, p := range []string{"relative", "/", "/etc", "/var", "/var/lib", "/home", "/usr", "/run/x", "/srv/../etc", "/var/lib/nomad/x"} {
		if _, err := hostConfig(operator(t, map[string]any{"volumes": map[string]any{"paths": []any{p}}})); err == nil || !strings.Contains(err.Error(), "volumes.paths") {
			t.Errorf("volumes.paths %s: %v", p, err)
		}
	}
}

// All that is wrong with one mount or device is told at once, and each by the
// option it stands in.
func TestEveryFaultOfAMount(t *testing.T) {
	config := map[string]any{
		"confinement": "CC1",
		"volumes":     []any{"/etc:relative:z"},
		"mount": []any{
			map[string]any{"type": "bind", "source": "/srv/x", "target": "/proc/x", "consistency": "z", "selinux": "z", "bind_options": map[string]any{"propagation": "shared"}, "tmpfs_options": map[string]any{"size": 1}},
			map[string]any{"type": "tmpfs", "source": "x", "target": "/t", "tmpfs_options": map[string]any{"size": "lots", "mode": "99999"}},
		},
		"mounts":  []any{map[string]any{"source": "a/b", "target": "/v", "volume_options": map[string]any{"no_copy": "perhaps", "labels": map[string]any{"a": "b"}, "driver_config": map[string]any{"name": "local"}}}},
		"devices": []any{map[string]any{"host_path": "/dev/mem", "container_path": "/mem", "cgroup_permissions": "x", "mode": "w"}},
	}
	_, err := planOf(t, config, closedHost)
	for _, want := range []string{
		`volumes = "/etc:relative:z": target "relative"`, `volumes = "/etc:relative:z": mount source "/etc": denied`, `volumes = "/etc:relative:z": mode "z"`,
		`mount = "/proc/x": consistency, selinux: no such option`, `mount = "/proc/x": tmpfs_options go with`, `mount = "/proc/x": target "/proc/x"`,
		`mount = "/proc/x": bind_options.propagation "shared"`, `mount = "/proc/x": source "/srv/x" is a path of the host`,
		`mount = "/t": a tmpfs has no source`, `mount = "/t": tmpfs_options.size "lots"`, `mount = "/t": tmpfs_options.mode`,
		`mounts = "/v": volume_options.driver_config`, `mounts = "/v": volume_options.labels`, `mounts = "/v": volume_options.no_copy`, `mounts = "/v": the operator keeps no volumes`, `mounts = "/v": source "a/b"`,
		`devices = "/dev/mem": it reaches the host's memory or disks, and no operator`, `devices = "/dev/mem": container_path "/mem"`, `devices = "/dev/mem": cgroup_permissions "x"`, `devices = "/dev/mem": mode: no such option`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q: %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("not one line: %v", err)
	}
}

// K31: a link on the way to a path that the operator lists is told before
// anything is made, with where it leads.
func TestK31LinkToAFolderOfTheHost(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	h := hostOf(t, map[string]any{"volumes": map[string]any{"paths": []any{dir}}})
	tc, c := taskOf(t, map[string]any{"mount": []any{
		map[string]any{"type": "bind", "source": link, "target": "/x"},
		map[string]any{"type": "bind", "source": filepath.Join(dir, "real"), "target": "/y"},
		map[string]any{"type": "bind", "source": filepath.Join(dir, "none"), "target": "/z"},
	}})
	fx := node
	fx.CheckHost = withoutLinks
	_, err := planTask(tc, c, h, fx)
	if want := fmt.Sprintf("is refused: mount = \"/x\": source %q has a symbolic link in it, which is not followed; write %q", link, filepath.Join(dir, "real")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// K31: what one task mounts is bounded, in whatever spelling: every bind is a
// mount of the host's too, of which a kernel has so many for all.
func TestK31MountsAreCounted(t *testing.T) {
	config := func(n int) map[string]any {
		var binds, memory []any
		for i := range n {
			if i%2 == 0 {
				binds = append(binds, fmt.Sprintf("local/%d:/m/%d", i, i))
			} else {
				memory = append(memory, fmt.Sprintf("/m/%d", i))
			}
		}
		return map[string]any{"volumes": binds, "tmpfs": memory}
	}
	if _, err := planOf(t, config(maxMounts), closedHost); err != nil {
		t.Error(err)
	}
	if _, err := planOf(t, config(maxMounts+1), closedHost); err == nil || !strings.Contains(err.Error(), "at most 128 mounts") {
		t.Errorf("one more: %v", err)
	}
}

// The switch that other drivers have opens nothing, and says what does.
func TestD9VolumesEnabledIsNoSwitch(t *testing.T) {
	for _, c := range []struct {
		on   bool
		want string
	}{{true, "volumes.paths"}, {false, ""}} {
		_, err := hostConfig(operator(t, map[string]any{"volumes": map[string]any{"enabled": c.on}}))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("enabled = %v: %v", c.on, err)
		}
	}
}

// What is really at a host's path is judged when the task is planned, and a
// client that names no namespace keeps nothing.
func TestK26AndT41VolumesOfTheNode(t *testing.T) {
	h := hostOf(t, map[string]any{"volumes": map[string]any{"named": true, "paths": []any{"/srv/shared"}}})
	tc, c := taskOf(t, map[string]any{"volumes": []any{"/srv/shared/x:/work/x"}, "mount": map[string]any{"source": "v", "target": "/v"}})
	fx := node
	fx.CheckHost = func(path string) error { return errors.New("planted: " + path) }
	tc.Namespace = ""
	_, err := planTask(tc, c, h, fx)
	for _, words := range []string{"planted: /srv/shared/x", "in which namespace"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	names := map[string]string{}
	for _, ns := range []string{"a", "a_00b", "b"} {
		tc.Namespace = ns
		p, err := planTask(tc, c, h, node)
		if err != nil {
			t.Fatal(err)
		}
		m := p.Spec.Sandbox.Task.Mounts
		names[m[len(m)-1].Volume] = ns
	}
	if len(names) != 3 {
		t.Errorf("namespaces share a volume: %v", names)
	}
}

// K33: what this node's agent keeps is mounted for nobody, wherever it lies.
func TestK33NomadsFoldersAreDenied(t *testing.T) {
	data := t.TempDir()
	for _, sub := range []string{"alloc/one", "client", "server/raft", "shared"} {
		if err := os.MkdirAll(filepath.Join(data, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, allocDir := range []string{filepath.Join(data, "alloc", "one"), filepath.Join(data, "alloc", "one") + "/"} {
		for sub, denied := range map[string]bool{"": true, "alloc": true, "alloc/one": true, "client": true, "server/raft": true, "shared": false} {
			err := runner.ValidateMountSourceBeside(filepath.Join(data, sub), nomadFolders(allocDir))
			if errors.Is(err, runner.ErrDenied) != denied {
				t.Errorf("%q: %v", sub, err)
			}
		}
	}
}

// K33: a volume_mount meets no other mount of any kind.
func TestK33VolumeMountsMeetNothing(t *testing.T) {
	h := hostOf(t, map[string]any{"volumes": map[string]any{"named": true}})
	for _, config := range []map[string]any{
		{"volumes": []any{"local/d:/data"}}, {"tmpfs": "/data"}, {"mount": map[string]any{"source": "v", "target": "/data"}},
		{"home": map[string]any{"volume": "v", "path": "/data/"}},
	} {
		tc, c := taskOf(t, config)
		tc.Mounts = []*driverpb.Mount{{HostPath: "/opt/x", TaskPath: "/data/"}}
		if _, err := planTask(tc, c, h, node); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("%v: %v", config, err)
		}
	}
}

// D-10: of a home, a workspace and an author's mounts no two are at one place,
// which an engine refuses only when the sandbox is made.
func TestD10OneMountAtAPlace(t *testing.T) {
	home := map[string]any{"volume": "v", "path": "/home/agent/"}
	for _, config := range []map[string]any{
		{"home": home, "volumes": []any{"local/d:/home/agent"}}, {"home": home, "tmpfs": "/home/agent"},
		{"workspace": map[string]any{"volume": "v"}, "tmpfs": "/workspace"},
	} {
		if _, err := planOf(t, config, closedHost); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("%v: %v", config, err)
		}
	}
	p, err := planOf(t, map[string]any{"tmpfs": "/workspace"}, closedHost)
	if err != nil || slices.ContainsFunc(p.Stage, func(b bind) bool { return b.Target == "/workspace" }) {
		t.Errorf("memory in place of the workspace: %v, %v", p.Stage, err)
	}
}
