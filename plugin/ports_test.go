package plugin

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
)

// groupTask is a task of a group with three ports.
func groupTask(mode driverpb.NetworkIsolationSpec_NetworkIsolationMode, path string) *driverpb.TaskConfig {
	return &driverpb.TaskConfig{
		Id: allocID + "/web/1", Name: "web", AllocId: allocID,
		NetworkIsolationSpec: &driverpb.NetworkIsolationSpec{Mode: mode, Path: path},
		Resources: &driverpb.Resources{Ports: []*driverpb.PortMapping{
			{Label: "http", Value: 24001, To: 8080, HostIp: "192.0.2.7"},
			{Label: "same", Value: 5353, HostIp: "192.0.2.7"},
			{Label: "lost", Value: 24002},
		}},
	}
}

func planPorts(t *driverpb.TaskConfig, h HostConfig, labels ...any) ([]ports.Port, error) {
	p, err := planTask(t, TaskConfig{Image: "web:1", Ports: labels}, h, node)
	return p.Ports, err
}

// K18: host mode listens on the host's address and port, a group's namespace is
// entered and listened in at the task's port.
func TestK18PortsArePlaced(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.7")
	for _, tc := range []struct {
		name string
		task *driverpb.TaskConfig
		want ports.Port
	}{
		{"no group network", groupTask(0, ""), ports.Port{Addr: addr, Port: 24001}},
		{"host", groupTask(driverpb.NetworkIsolationSpec_HOST, "/run/ns"), ports.Port{Addr: addr, Port: 24001}},
		{"bridge", groupTask(driverpb.NetworkIsolationSpec_GROUP, "/run/ns"), ports.Port{Namespace: "/run/ns", Port: 8080}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := planPorts(tc.task, closedHost, "http")
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Label, tc.want.To = "http", 8080
			for i, network := range []string{ports.TCP, ports.UDP} {
				tc.want.Network = network
				if got[i] != tc.want {
					t.Errorf("got %+v, want %+v", got[i], tc.want)
				}
			}
		})
	}
	got, err := planPorts(groupTask(0, ""), closedHost, "same")
	if err != nil || got[0].To != 5353 {
		t.Errorf("a port without to: %+v, %v; want it to be the same inside", got, err)
	}
	if got, err := planPorts(groupTask(0, ""), closedHost); err != nil || got != nil {
		t.Errorf("no label: %v, %v; want no port", got, err)
	}
}

// K35: the operator says which ports of the host tasks may have.
func TestK35PortsCeiling(t *testing.T) {
	for _, tc := range []struct {
		ceiling []string
		label   string
		want    []string // networks; none is a refusal
	}{
		{nil, "same", []string{"tcp", "udp"}},
		{[]string{"5353"}, "same", []string{"tcp", "udp"}},
		{[]string{"5000-5353/udp"}, "same", []string{"udp"}},
		{[]string{"5354-6000"}, "same", nil},
		{[]string{"8080"}, "http", nil}, // of the host's port, not the task's
		{[]string{"none"}, "http", nil},
	} {
		h, err := hostConfig(Config{Ports: tc.ceiling})
		if err != nil {
			t.Fatal(err)
		}
		got, err := planPorts(groupTask(0, ""), h, tc.label)
		var networks []string
		for _, p := range got {
			networks = append(networks, p.Network)
		}
		if !slices.Equal(networks, tc.want) || (err != nil) != (tc.want == nil) {
			t.Errorf("ceiling %q, port %q: %v, %v; want %v", tc.ceiling, tc.label, networks, err, tc.want)
		}
		if err != nil && !strings.Contains(err.Error(), "plugin option ports: "+strings.Join(tc.ceiling, ", ")) {
			t.Errorf("the refusal names no option: %v", err)
		}
	}
	for _, bad := range []string{"0", "65536", "9-8", "80/sctp", "x", "", "80/"} {
		if _, err := hostConfig(Config{Ports: []string{bad}}); err == nil {
			t.Errorf("ports = [%q] was taken", bad)
		}
	}
	if _, err := hostConfig(Config{Ports: []string{"none", "80"}}); err == nil {
		t.Error(`none beside a port was taken`)
	}
}

// I7: every fault of the ports, in one message.
func TestI7PortFaults(t *testing.T) {
	_, err := planPorts(groupTask(0, ""), closedHost, "http", "http", "web", "lost")
	if err == nil {
		t.Fatal("taken")
	}
	for _, part := range []string{"3 reasons", "listed twice", `"web": the group's network has no port of that label; the ones it has: http, same, lost`, `no address to listen on`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("lacks %q: %v", part, err)
		}
	}
	_, err = planPorts(groupTask(driverpb.NetworkIsolationSpec_NONE, "/run/ns"), closedHost, "http")
	if err == nil || !strings.Contains(err.Error(), "the group has no network") {
		t.Errorf("mode none: %v", err)
	}
}
