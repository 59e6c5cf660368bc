package docker

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

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

// A record's time is the kernel's, in microseconds.
func TestKernelLogTime(t *testing.T) {
	for record, want := range map[string]time.Duration{
		"6,1234,13896949517,-;oom-kill:task_memcg=/a": 13896949517 * time.Microsecond,
		"6,1234,x,-;oom-kill:":                        0, "6;": 0, "": 0,
	} {
		if got := recordTime(record); got != want {
			t.Errorf("%q: %v, want %v", record, got, want)
		}
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now); err != nil {
		t.Fatal(err)
	}
	if d := time.Until(sinceBoot(time.Duration(now.Nano()) + time.Hour)); d < 59*time.Minute || d > time.Hour {
		t.Errorf("in an hour is in %v", d)
	}
}

// K12: which kill for memory has to do with the end, where the engine has missed it.
func TestK12MissedKill(t *testing.T) {
	end := time.Now().UTC()
	for _, tc := range []struct {
		name  string
		class types.ConfinementClass
		code  int
		ago   time.Duration // of the kill, before the end
		want  bool
	}{
		{"the main process", types.CC1, 137, 0, true},
		{"noted late", types.CC1, 137, memoryKillEnds - 1, true},
		{"noted early", types.CC1, 137, -time.Second, true},
		{"a child, and a kill later", types.CC1, 137, memoryKillEnds, false},
		{"a child that was survived", types.CC1, 9, time.Hour, true},
		{"the sentry", types.CC2, 137, time.Hour, true},
		{"not the sentry", types.CC2, 1, 0, false},
	} {
		s := &container.State{ExitCode: tc.code, FinishedAt: end.Format(time.RFC3339Nano)}
		if got := tellsOfTheEnd(end.Add(-tc.ago), s, tc.class); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
