package plugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// K18: in a group with a network of its own a docker task's ports are open
// without a word in its config; a sandbox's are not, and an event says so.
// D-3: the group's dns block is told of like the options of the task.
func TestK18GroupNetworkIsToldOf(t *testing.T) {
	const group, host = driverpb.NetworkIsolationSpec_GROUP, driverpb.NetworkIsolationSpec_HOST
	mesh := groupTask(group, "/run/ns")
	mesh.Resources.Ports = []*driverpb.PortMapping{{Label: "connect-proxy-api", Value: 24009}}
	dns := groupTask(host, "/run/ns")
	dns.Dns = &driverpb.DNSConfig{Searches: []string{"example.org"}}
	for _, c := range []struct {
		name  string
		task  *driverpb.TaskConfig
		ports []any
		mode  string
		notes []string
	}{
		{"bridge", groupTask(group, "/run/ns"), nil, "", []string{`of "http", "same", "lost" list those that it serves in ports`}},
		{"bridge, one is opened", groupTask(group, "/run/ns"), []any{"http"}, "", nil},
		{"host", groupTask(host, "/run/ns"), nil, "", nil},
		{"no group network", groupTask(0, ""), nil, "", nil},
		{"a mesh's own port", mesh, nil, "", nil},
		{"no network at all", groupTask(group, "/run/ns"), nil, "none", nil},
		{"dns", dns, nil, "", []string{"dns block of the group's network has no effect"}},
		{"an empty dns block", withDNS(&driverpb.DNSConfig{}), nil, "", nil},
	} {
		config := TaskConfig{Image: "web:1", Ports: c.ports}
		config.NetworkMode = c.mode
		p, err := planTask(c.task, config, closedHost, node)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		told := slices.DeleteFunc(p.Notes, func(n string) bool { return !strings.Contains(n, "the group's") })
		if len(told) != len(c.notes) {
			t.Errorf("%s: %q", c.name, told)
			continue
		}
		for i, want := range c.notes {
			if !strings.Contains(told[i], want) {
				t.Errorf("%s: %q is not in %q", c.name, want, told[i])
			}
		}
	}
}

func withDNS(d *driverpb.DNSConfig) *driverpb.TaskConfig {
	t := groupTask(0, "")
	t.Dns = d
	return t
}

// A name with dots or underscores is a host's name with other drivers, too.
func TestHostnames(t *testing.T) {
	for name, ok := range map[string]bool{
		"web": true, "db.example.org": true, "my_task-0": true, "a.b_c.d": true, strings.Repeat("a", 63): true, "10.0.0.1": true,
		"": true, strings.Repeat("a", 64): false, ".a": false, "a.": false, "a..b": false, "-a": false, "a-": false, "a-.b": false,
		"a b": false, "a\nb": false, "a/b": false, "é": false, "a\n10.0.0.1 x": false,
	} {
		p, err := planOf(t, map[string]any{"hostname": name}, closedHost)
		if (err == nil) != ok || ok && p.Spec.Sandbox.Task.Hostname != name {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A misspelt drop would leave what it was to take of cap_add.
func TestK16MisspeltDrop(t *testing.T) {
	h := hostOf(t, map[string]any{"allow_caps": []any{"CHOWN"}})
	for name, ok := range map[string]bool{"all": true, "cap_chown": true, "NET_RAW": true, "CAP_MKNOD": true, "sys_admin": true, "chwon": false, "": false} {
		_, err := planOf(t, map[string]any{"cap_add": []any{"chown"}, "cap_drop": []any{name}}, h)
		if (err == nil) != ok {
			t.Errorf("cap_drop %q: %v", name, err)
		}
	}
}
