package taskenv

import (
	"maps"
	"testing"
)

func TestBuild(t *testing.T) {
	node := Node{ID: "n-id", Name: "n1", Datacenter: "dc1", Region: "global",
		Attributes: map[string]string{"kernel.name": "linux"}, Meta: map[string]string{"rack": "r1"}}
	task := Task{
		JobID: "j-id", JobName: "job", Namespace: "team", Group: "g", Name: "web", AllocIndex: 2,
		AllocID: "01234567-89ab-cdef-0123-456789abcdef", CPU: 500, MemoryMB: 256,
		Meta:      map[string]string{"my-key": "m", "my.key": "on ${node.unique.name}"},
		Upstreams: []Upstream{{Name: "the-db", Port: 5432}},
		Tokens:    map[string]string{"NOMAD_TOKEN": "t1", "NOMAD_TOKEN_my-api": "t2"},
		Ports:     []Port{{Label: "http", Value: 23456, To: 80, HostIP: "10.0.0.1"}, {Label: "a-b", Value: 99, HostIP: "10.0.0.1"}},
		Env: map[string]string{
			"PLAIN": "x", "REF": "${NOMAD_TASK_NAME}/${attr.kernel.name}/${meta.rack}/${node.unique.name}",
			"UNKNOWN": "${nope} $HOME ${} ${ NOMAD_DC }", "RAW": "${NOMAD_META_my-key} ${NOMAD_META_my_key} ${NOMAD_PORT_a-b}", "NOMAD_META_a-b": "z", "c-d": "kept",
			"OTHER": "${PLAIN}", "NOMAD_REGION": "mine",
			"WHO": "${NOMAD_TOKEN}", "NOMAD_TOKEN": "own", "TWICE": "env",
		},
		Rendered: map[string]string{"TWICE": "${NOMAD_DC}"},
	}
	got := Build(node, task, ImageDirs)
	want := map[string]string{
		"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets",
		"NOMAD_ALLOC_ID": task.AllocID, "NOMAD_SHORT_ALLOC_ID": "01234567", "NOMAD_ALLOC_NAME": "job.g[2]",
		"NOMAD_ALLOC_INDEX": "2", "NOMAD_GROUP_NAME": "g", "NOMAD_TASK_NAME": "web", "NOMAD_JOB_ID": "j-id",
		"NOMAD_JOB_NAME": "job", "NOMAD_NAMESPACE": "team", "NOMAD_DC": "dc1", "NOMAD_REGION": "mine",
		"NOMAD_CPU_LIMIT": "500", "NOMAD_MEMORY_LIMIT": "256", "NOMAD_META_my_key": "m", "NOMAD_META_MY_KEY": "m",
		"NOMAD_META_my.key": "on n1", "NOMAD_META_MY.KEY": "on n1", "NOMAD_META_a_b": "z", "c-d": "kept", "TWICE": "${NOMAD_DC}",
		"RAW": "m ${NOMAD_META_my_key} 99", "NOMAD_ALLOC_PORT_http": "80", "NOMAD_ALLOC_PORT_a-b": "99",
		"NOMAD_PORT_http": "80", "NOMAD_HOST_PORT_http": "23456", "NOMAD_IP_http": "10.0.0.1",
		"NOMAD_ADDR_http": "10.0.0.1:23456", "NOMAD_HOST_IP_http": "10.0.0.1", "NOMAD_HOST_ADDR_http": "10.0.0.1:23456",
		"NOMAD_PORT_a_b": "99", "NOMAD_HOST_PORT_a_b": "99", "NOMAD_IP_a_b": "10.0.0.1",
		"NOMAD_ADDR_a_b": "10.0.0.1:99", "NOMAD_HOST_IP_a-b": "10.0.0.1", "NOMAD_HOST_ADDR_a-b": "10.0.0.1:99",
		"NOMAD_UPSTREAM_IP_the_db": "127.0.0.1", "NOMAD_UPSTREAM_PORT_the_db": "5432", "NOMAD_UPSTREAM_ADDR_the_db": "127.0.0.1:5432",
		"PLAIN": "x", "REF": "web/linux/r1/n1", "UNKNOWN": "${nope} $HOME ${} ${ NOMAD_DC }", "OTHER": "${PLAIN}",
		"WHO": "t1", "NOMAD_TOKEN": "own", "NOMAD_TOKEN_my-api": "t2",
	}
	if !maps.Equal(got, want) {
		for k := range got {
			if got[k] != want[k] {
				t.Errorf("%s = %q, want %q", k, got[k], want[k])
			}
		}
		for k := range want {
			if _, ok := got[k]; !ok {
				t.Errorf("%s is missing", k)
			}
		}
	}
}

func TestBuildOptionalNames(t *testing.T) {
	base := Build(Node{}, Task{}, ImageDirs)
	full := Build(Node{}, Task{ParentJobID: "p", MemoryMaxMB: 512, Cores: "0,3"}, ImageDirs)
	for name, want := range map[string]string{
		"NOMAD_JOB_PARENT_ID": "p", "NOMAD_MEMORY_MAX_LIMIT": "512", "NOMAD_CPU_CORES": "0,3",
	} {
		if _, ok := base[name]; ok {
			t.Errorf("%s is set without a reason", name)
		}
		if full[name] != want {
			t.Errorf("%s = %q, want %q", name, full[name], want)
		}
	}
	if _, ok := Build(Node{}, Task{MemoryMaxMB: -1}, ImageDirs)["NOMAD_MEMORY_MAX_LIMIT"]; ok {
		t.Error("no upper limit has no number")
	}
}

func TestCleanNames(t *testing.T) {
	for name, want := range map[string]string{"a-b.c_d E": "a_b.c_d_E", "1st2": "_st2", "\u00fc=\n\x00": "_____", "": ""} {
		if got := Clean(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	got := Build(Node{}, Task{Meta: map[string]string{"a-b": "1", "a_b": "2", "a+b": "3", "c+d": "4", "c-d": "5"}}, ImageDirs)
	for name, want := range map[string]string{"NOMAD_META_a_b": "2", "NOMAD_META_c_d": "4"} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
}
