package cli

import (
	"reflect"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

func twoCores() host.Node {
	n := host.LocalNode()
	n.Cores = []host.Core{{ID: 0, MHz: 2000}, {ID: 3, MHz: 1000}}
	return n
}

func TestPlacement(t *testing.T) {
	job := &jobfile.Job{ID: "j", Name: "job", Namespace: "ns"}
	plain := jobfile.Task{
		Name: "plain", Meta: map[string]string{"m": "1"}, Env: map[string]string{"E": "2"},
		Resources: jobfile.Resources{CPU: 600, MemoryMB: 64, MemoryMaxMB: -1},
	}
	pinned := jobfile.Task{Name: "pinned", Resources: jobfile.Resources{CPU: 100, Cores: 2, MemoryMB: 32}}
	group := jobfile.Group{
		Name: "g", Tasks: []jobfile.Task{plain, pinned},
		Network: &jobfile.Network{
			Ports: []jobfile.Port{{Label: "static", Static: 8080}, {Label: "mapped", Static: 9090, To: 80}, {Label: "same", Static: 9091, To: -1}},
			DNS:   &jobfile.DNS{Servers: []string{"192.0.2.1"}},
		},
	}
	p, err := place(job, group, twoCores())
	if err != nil {
		t.Fatal(err)
	}
	ports := []host.Port{
		{Label: "static", Value: 8080, HostIP: "127.0.0.1"},
		{Label: "mapped", Value: 9090, To: 80, HostIP: "127.0.0.1"},
		{Label: "same", Value: 9091, To: 9091, HostIP: "127.0.0.1"},
	}
	if got, want := p.resources(plain), (host.Resources{CPU: 600, MemoryMB: 64, MemoryMaxMB: -1, CPUFraction: 0.2, Ports: ports}); !reflect.DeepEqual(got, want) {
		t.Errorf("plain: %+v, want %+v", got, want)
	}
	if got, want := p.resources(pinned), (host.Resources{CPU: 3000, MemoryMB: 32, Cores: "0,3", CPUFraction: 1, Ports: ports}); !reflect.DeepEqual(got, want) {
		t.Errorf("pinned: %+v, want %+v", got, want)
	}
	want := taskenv.Task{
		JobID: "j", JobName: "job", Namespace: "ns", Group: "g", Name: "plain", AllocID: p.alloc,
		CPU: 600, MemoryMB: 64, MemoryMaxMB: -1, Meta: plain.Meta, Env: plain.Env,
		Ports: []taskenv.Port{taskenv.Port(ports[0]), taskenv.Port(ports[1]), taskenv.Port(ports[2])},
	}
	if got := p.environment(plain); !reflect.DeepEqual(got, want) {
		t.Errorf("environment: %+v, want %+v", got, want)
	}
	if d := p.dns(); d == nil || !reflect.DeepEqual(d.Servers, []string{"192.0.2.1"}) {
		t.Errorf("dns: %+v", d)
	}
	if len(p.alloc) != 36 {
		t.Errorf("allocation id %q", p.alloc)
	}
}

func TestPlacementOfDynamicPorts(t *testing.T) {
	group := jobfile.Group{Network: &jobfile.Network{Ports: []jobfile.Port{{Label: "a"}, {Label: "b", To: -1}}}}
	p, err := place(&jobfile.Job{}, group, twoCores())
	if err != nil || len(p.ports) != 2 {
		t.Fatalf("%+v, %v", p.ports, err)
	}
	for _, port := range p.ports {
		if port.Value < 1024 || port.Label == "b" && port.To != port.Value || port.Label == "a" && port.To != 0 {
			t.Errorf("port %+v", port)
		}
	}
}

// TestPlacementTellsEverythingMissing: a core can't be reserved twice.
func TestPlacementTellsEverythingMissing(t *testing.T) {
	cores := func(name string, n int) jobfile.Task {
		return jobfile.Task{Name: name, Resources: jobfile.Resources{Cores: n}, Pos: jobfile.Pos{File: "j.hcl", Line: n}}
	}
	if _, err := place(&jobfile.Job{}, jobfile.Group{Tasks: []jobfile.Task{cores("a", 1), cores("b", 1)}}, twoCores()); err != nil {
		t.Errorf("one core each: %v", err)
	}
	_, err := place(&jobfile.Job{}, jobfile.Group{Tasks: []jobfile.Task{cores("a", 1), cores("b", 2), cores("c", 3)}}, twoCores())
	for _, want := range []string{`j.hcl:2: task "b": cores = 2, but 1 of the 2 cores are left`, `j.hcl:3: task "c": cores = 3`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}
