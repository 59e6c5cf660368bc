package docker

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// one is a group whose controllers all have the same folder.
func one(path string, v2 bool) group {
	f := folder{path, v2}
	return group{f, f, f, f, f}
}

// The same load, as both versions of the kernel's accounting tell it.
func TestF36ReadUsage(t *testing.T) {
	want := runner.Usage{
		CPUTotal: 143060 * time.Microsecond, CPUUser: 83 * time.Millisecond, CPUSystem: 60060 * time.Microsecond,
		ThrottledPeriods: 7, ThrottledTime: 1500 * time.Millisecond,
		MemoryRSS: 12251136 + 225280 + 8192, MemoryCache: 376832 + 53248, MemorySwap: 4096,
		MemoryUsage: 20000000, MemoryMax: 30000000, MemoryMaxKnown: true, SwapKnown: true, Pids: 12,
	}
	for _, version := range []string{"v1", "v2"} {
		got, err := readUsage(one("testdata/cgroup/"+version, version == "v2"))
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(got.Time) > time.Minute {
			t.Errorf("%s: sampled at %v", version, got.Time)
		}
		got.Time = time.Time{}
		got.CPUTotal, got.CPUSystem = got.CPUTotal.Truncate(time.Microsecond), got.CPUSystem.Truncate(time.Microsecond)
		if got != want {
			t.Errorf("%s:\n%+v, want\n%+v", version, got, want)
		}
	}
}

// What a kernel need not have is unknown; what it must have is an error.
func TestReadUsageOfPoorKernels(t *testing.T) {
	for _, c := range []struct {
		file  string
		v2    bool
		check func(runner.Usage, error) bool
	}{
		{"memory.peak", true, func(u runner.Usage, err error) bool { return err == nil && !u.MemoryMaxKnown && u.MemoryMax == 0 }},
		{"memory.swap.current", true, func(u runner.Usage, err error) bool { return err == nil && !u.SwapKnown && u.MemorySwap == 0 }},
		{"memory.current", true, failed},
		{"memory.stat", true, failed},
		{"cpu.stat", true, failed},
		{"pids.current", true, failed},
		{"memory.max_usage_in_bytes", false, func(u runner.Usage, err error) bool { return err == nil && !u.MemoryMaxKnown }},
		{"memory.usage_in_bytes", false, failed},
		{"cpuacct.usage", false, failed},
		{"cpuacct.usage_user", false, failed},
	} {
		from := "testdata/cgroup/v1"
		if c.v2 {
			from = "testdata/cgroup/v2"
		}
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
			t.Fatal(err)
		}
		if u, err := readUsage(one(dir, c.v2)); !c.check(u, err) {
			t.Errorf("without %s: %+v, %v", c.file, u, err)
		}
	}
}

func failed(_ runner.Usage, err error) bool { return err != nil }

func TestResolveGroup(t *testing.T) {
	const id = "/docker/1680321bf150"
	const cpusetMount = "40 31 0:37 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
	v1 := cpusetMount + `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	memberV1 := "8:pids:" + id + "\n2:cpuset:" + id + "\n4:memory:" + id + "\n1:cpu,cpuacct:" + id + "\n9:name=systemd:/x\n0::/\n"
	v2 := "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	at := func(path string, v2 bool) folder { return folder{path, v2} }
	for _, c := range []struct {
		name, mounts, member string
		want                 group
		err                  string
	}{
		{"v1, with the v2 tree beside it", v1, memberV1, group{
			at("/sys/fs/cgroup/cpu,cpuacct"+id, false), at("/sys/fs/cgroup/cpu,cpuacct"+id, false),
			at("/sys/fs/cgroup/memory"+id, false), at("/sys/fs/cgroup/pids"+id, false), at("/sys/fs/cgroup/cpuset"+id, false)}, ""},
		{"v1, without cpuset", strings.Replace(v1, cpusetMount, "", 1), memberV1, group{
			cpu: at("/sys/fs/cgroup/cpu,cpuacct"+id, false), cpuacct: at("/sys/fs/cgroup/cpu,cpuacct"+id, false),
			memory: at("/sys/fs/cgroup/memory"+id, false), pids: at("/sys/fs/cgroup/pids"+id, false)}, ""},
		{"v2, systemd", v2, "0::/system.slice/docker-16.scope\n", one("/sys/fs/cgroup/system.slice/docker-16.scope", true), ""},
		{"a tree mounted from below", strings.ReplaceAll(v2, " / /sys", " /outer /sys"), "0::/outer/docker/1\n", one("/sys/fs/cgroup/docker/1", true), ""},
		{"outside of what is mounted", strings.ReplaceAll(v2, " / /sys", " /outer /sys"), "0::/docker/1\n", group{}, "outside of what is mounted"},
		{"the whole machine", v2, "0::/\n", group{}, "whole machine"},
		{"nothing mounted", "", memberV1, group{}, "no control group"},
		{"not a member", v1, "0::/x\n", group{}, "no control group"},
		{"rubbish", "a b\n - \n", "x\n1:2\n", group{}, "no control group"},
	} {
		got, err := resolveGroup(parseMounts([]byte(c.mounts)), parseMembership([]byte(c.member)))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

// TestUsageFallsBack to the engine where there is no group of the process, and
// takes no sample for one that is none.
func TestUsageFallsBack(t *testing.T) {
	stats := container.StatsResponse{Read: time.Now().UTC()}
	stats.CPUStats.CPUUsage.TotalUsage = 5e9
	stats.MemoryStats.Usage = 9 << 20
	stats.MemoryStats.Stats = map[string]uint64{"inactive_anon": 1 << 20, "active_anon": 2 << 20, "active_file": 3 << 20}
	stats.PidsStats.Current = 4
	mux := http.NewServeMux()
	r := httpEngine(t, mux)
	mux.HandleFunc("GET /containers/{ref}/json", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{
			"Id": "c1", "Name": "/" + scriptedRef, "State": map[string]any{"Status": "running", "Running": true, "Pid": 1 << 30, "StartedAt": startTime},
			"Config": map[string]any{"Labels": r.reserved(scriptedRef, componentAgent)},
		})
	})
	empty := false
	mux.HandleFunc("GET /containers/{ref}/stats", func(w http.ResponseWriter, _ *http.Request) {
		if empty {
			io.WriteString(w, `{"read":"0001-01-01T00:00:00Z"}`)
			return
		}
		json.NewEncoder(w).Encode(stats)
	})
	u, err := r.Usage(t.Context(), scriptedRef)
	if err != nil || u.CPUTotal != 5*time.Second || u.MemoryUsage != 9<<20 || u.MemoryRSS != 3<<20 || u.MemoryCache != 3<<20 || u.Pids != 4 ||
		u.SwapKnown || u.MemoryMaxKnown || !u.Time.Equal(stats.Read) {
		t.Errorf("%+v, %v", u, err)
	}
	empty = true
	if u, err := r.Usage(t.Context(), scriptedRef); err == nil {
		t.Errorf("no sample: %+v", u)
	}
}

// TestUsageOfAStaleGroup: what is remembered is only an address.
func TestUsageOfAStaleGroup(t *testing.T) {
	s := &scripted{inspect: func() (*container.State, error) { return exitedState(0), nil }}
	r := newScripted(t, s)
	r.use.groups.put(scriptedRef, one(filepath.Join(t.TempDir(), "gone"), true))
	if u, err := r.Usage(t.Context(), scriptedRef); err == nil {
		t.Errorf("%+v", u)
	}
	if _, ok := r.use.groups.get(scriptedRef); ok {
		t.Error("still remembered")
	}
}

func TestUseForgets(t *testing.T) {
	var u use
	u.own.add("a")
	u.sinks.put("a", newCollector())
	u.agents.add("a", &process{})
	u.agents.keep("a", "id", 1)
	u.groups.put("a", group{})
	u.owed.add("a", "id")
	u.forget("a")
	_, seen := u.agents.seen("a", "id")
	_, group := u.groups.get("a")
	if u.own.has("a") || u.sinks.get("a") != nil || u.agents.latest("a") != nil || seen || group || len(u.owed.take("a")) > 0 {
		t.Errorf("%+v", &u)
	}
}

// TestPinOfAProcessThatEnds: a process that is gone while the engine still has it
// as running has exited, which is no failure to tell of.
func TestPinOfAProcessThatEnds(t *testing.T) {
	s := &scripted{inspect: func() (*container.State, error) {
		return &container.State{Status: "running", Running: true, Pid: 1 << 30, StartedAt: startTime}, nil
	}}
	r := newScripted(t, s)
	if err := r.pin(t.Context(), scriptedRef, r.look, "0"); !errors.Is(err, runner.ErrPrecondition) {
		t.Errorf("%v", err)
	}
}
