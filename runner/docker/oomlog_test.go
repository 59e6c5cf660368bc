package docker

import "testing"

// K12: the kernel's own words about a kill for memory, under both layouts of
// control groups, and words that only look like them.
func TestK12KernelLog(t *testing.T) {
	const id = "fcfac40f2db1caf89480c1cd51aa715c1c023d6e9511e4b6cf95bee13825c148"
	kill := func(memcg string) string {
		return "6,1234,13896949517,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=" + id +
			",mems_allowed=0,oom_memcg=" + memcg + ",task_memcg=" + memcg + ",task=exe,pid=14748,uid=0"
	}
	for _, tc := range []struct {
		record string
		want   bool
	}{
		{kill("/docker/" + id), true},
		{kill("/system.slice/docker-" + id + ".scope"), true},
		{kill("/docker/0000"), false},
		{"6,1,2,-;docker " + id + ": Out of memory", false},
		{"6,1,2,-;task_memcg=/docker/" + id, false},
	} {
		if got := isMemoryKill(tc.record, id); got != tc.want {
			t.Errorf("%v, want %v: %s", got, tc.want, tc.record)
		}
	}
	if isMemoryKill(kill("/docker/"+id), "") {
		t.Error("no container is every container")
	}
}
