package host

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/basepb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/structspb"
)

// TestTraps19And20NodeState: what fingerprints leave on the node, and how many updates they
// cost.
func TestTraps19And20NodeState(t *testing.T) {
	s := newNodeState(map[string]string{"kernel.name": "linux"})
	s.driver = "fake"
	steps := []struct {
		name    string
		in      Fingerprint
		want    map[string]string
		updates int
	}{
		{"first", Fingerprint{Healthy, "Healthy", map[string]string{"driver.fake.v": "1", "driver.fake.x": "y"}},
			map[string]string{"driver.fake": "1", "driver.fake.v": "1", "driver.fake.x": "y"}, 1},
		{"the same", Fingerprint{Healthy, "Healthy", map[string]string{"driver.fake.v": "1"}},
			map[string]string{"driver.fake": "1", "driver.fake.v": "1", "driver.fake.x": "y"}, 1},
		{"left out stays, empty goes", Fingerprint{Healthy, "Healthy", map[string]string{"driver.fake.x": ""}},
			map[string]string{"driver.fake": "1", "driver.fake.v": "1"}, 2},
		{"description", Fingerprint{Healthy, "Healthy, 5 tasks", nil}, map[string]string{"driver.fake": "1", "driver.fake.v": "1"}, 3},
		{"unhealthy is detected", Fingerprint{Unhealthy, "down", nil}, map[string]string{"driver.fake": "1", "driver.fake.v": "1"}, 4},
		{"undetected", Fingerprint{Undetected, "gone", nil}, map[string]string{"driver.fake.v": "1"}, 5},
	}
	for _, step := range steps {
		s.apply(step.in)
		step.want["kernel.name"] = "linux"
		if !maps.Equal(s.attributes, step.want) || s.updates != step.updates {
			t.Errorf("%s: %v after %d updates, want %v after %d", step.name, s.attributes, s.updates, step.want, step.updates)
		}
	}
}

func TestFingerprintText(t *testing.T) {
	got := fromFingerprint(&driverpb.FingerprintResponse{
		Health: driverpb.FingerprintResponse_HEALTHY, HealthDescription: "Healthy",
		Attributes: map[string]*structspb.Attribute{
			"f": {Value: &structspb.Attribute_FloatVal{FloatVal: 0.5}}, "i": {Value: &structspb.Attribute_IntVal{IntVal: 3}, Unit: "MiB"},
			"b": {Value: &structspb.Attribute_BoolVal{BoolVal: true}}, "s": {Value: &structspb.Attribute_StringVal{StringVal: "x"}},
		},
	})
	want := map[string]string{"f": "0.5", "i": "3MiB", "b": "true", "s": "x"}
	if got.Health != Healthy || !maps.Equal(got.Attributes, want) {
		t.Errorf("got %+v", got)
	}
	if got := fromFingerprint(&driverpb.FingerprintResponse{Health: driverpb.FingerprintResponse_HEALTHY, Err: "x"}); got.Health != Undetected {
		t.Errorf("an error in the message: %+v", got)
	}
}

// TestTraps35And36Resources: how a client fills what it knows twice.
func TestTraps35And36Resources(t *testing.T) {
	rows := []struct {
		in    Resources
		limit int64
	}{
		{Resources{CPU: 100, MemoryMB: 64}, 64 << 20},
		{Resources{MemoryMB: 64, MemoryMaxMB: 128}, 128 << 20},
		{Resources{MemoryMB: 64, MemoryMaxMB: -1}, 64 << 20},
	}
	for _, r := range rows {
		got := toResources(r.in)
		l := got.GetLinuxResources()
		if l.GetMemoryLimitBytes() != r.limit || l.GetCpuShares() != r.in.CPU || l.GetCpuQuota() != 0 || l.GetCpuPeriod() != 0 {
			t.Errorf("%+v: %v", r.in, l)
		}
		if m := got.GetAllocatedResources().GetMemory(); m.GetMemoryMaxMb() != r.in.MemoryMaxMB || m.GetMemoryMb() != r.in.MemoryMB {
			t.Errorf("%+v: %v", r.in, m)
		}
	}
}

// TestTaskConfigIsCarriedWhole: every field of the plain type has its place in the message.
func TestTaskConfigIsCarriedWhole(t *testing.T) {
	got := toTaskConfig(TaskConfig{
		ID: "id", Name: "n", GroupName: "g", JobName: "jn", JobID: "ji", Namespace: "ns", AllocID: "a", NodeName: "nn", NodeID: "ni",
		DriverConfig: []byte{1}, Env: map[string]string{"E": "1"}, DeviceEnv: map[string]string{"D": "2"},
		Resources: Resources{Cores: "0", CPUFraction: 0.5, CPUSetCgroup: "/c", Ports: []Port{{"l", 1, 2, "h"}}},
		Mounts:    []Mount{{"/t", "/h", true, "private", "z", "v"}}, Devices: []Device{{"/dev/t", "/dev/h", "rw"}},
		User: "u", AllocDir: "/ad", StdoutPath: "/o", StderrPath: "/e",
		Network: &NetworkIsolation{NetworkGroup, "/ns", map[string]string{"k": "v"}, "hh", "ha"},
		DNS:     &DNS{[]string{"s"}, []string{"d"}, []string{"o"}},
	})
	want := &driverpb.TaskConfig{
		Id: "id", Name: "n", TaskGroupName: "g", JobName: "jn", JobId: "ji", Namespace: "ns", AllocId: "a", NodeName: "nn", NodeId: "ni",
		MsgpackDriverConfig: []byte{1}, Env: map[string]string{"E": "1"}, DeviceEnv: map[string]string{"D": "2"},
		Resources: &driverpb.Resources{
			AllocatedResources: &driverpb.AllocatedTaskResources{Cpu: &driverpb.AllocatedCpuResources{}, Memory: &driverpb.AllocatedMemoryResources{}},
			LinuxResources:     &driverpb.LinuxResources{CpusetCpus: "0", PercentTicks: 0.5, CpusetCgroup: "/c"},
			Ports:              []*driverpb.PortMapping{{Label: "l", Value: 1, To: 2, HostIp: "h"}},
		},
		Mounts:  []*driverpb.Mount{{TaskPath: "/t", HostPath: "/h", Readonly: true, PropagationMode: "private", SelinuxLabel: "z", RequestName: "v"}},
		Devices: []*driverpb.Device{{TaskPath: "/dev/t", HostPath: "/dev/h", CgroupPermissions: "rw"}},
		User:    "u", AllocDir: "/ad", StdoutPath: "/o", StderrPath: "/e",
		NetworkIsolationSpec: &driverpb.NetworkIsolationSpec{
			Mode: driverpb.NetworkIsolationSpec_GROUP, Path: "/ns", Labels: map[string]string{"k": "v"},
			HostsConfig: &driverpb.HostsConfig{Hostname: "hh", Address: "ha"},
		},
		Dns: &driverpb.DNSConfig{Servers: []string{"s"}, Searches: []string{"d"}, Options: []string{"o"}},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	// parent_job_id is the one field no client ever fills.
	if got.GetParentJobId() != "" {
		t.Error("parent_job_id is set")
	}
}

func TestTopology(t *testing.T) {
	got := topology([]Core{{ID: 0, MHz: 2000}, {ID: 1, NodeID: 1, SocketID: 1, MHz: 1000, Disabled: true}})
	want := &basepb.ClientTopology{
		NodeIds: []uint32{0, 1}, Distances: &basepb.ClientTopologySLIT{Dimension: 2, Values: []uint32{10, 20, 20, 10}},
		Cores: []*basepb.ClientTopologyCore{
			{GuessSpeed: 2000}, {CoreId: 1, NodeId: 1, SocketId: 1, GuessSpeed: 1000, Disable: true},
		},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if total := (Node{Cores: []Core{{MHz: 2000}, {MHz: 1000, Disabled: true}}}).TotalMHz(); total != 2000 {
		t.Errorf("total %d", total)
	}
	if n := LocalNode(); n.Name == "" || n.ID == "" || len(n.Cores) == 0 || n.TotalMHz() == 0 {
		t.Errorf("local node %+v", n)
	}
}

func TestCPUMHz(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]uint64{
		"processor : 0\ncpu MHz\t\t: 2596.132\n": 2596, "processor : 0\n": unknownCoreMHz, "cpu MHz : x\ncpu MHz : 0.2\n": unknownCoreMHz,
	} {
		path := filepath.Join(dir, "cpuinfo")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := cpuMHz(path); got != want {
			t.Errorf("%q: %d, want %d", content, got, want)
		}
	}
	if got := cpuMHz(filepath.Join(dir, "none")); got != unknownCoreMHz {
		t.Errorf("no file: %d", got)
	}
}
