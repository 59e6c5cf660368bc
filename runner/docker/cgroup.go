package docker

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// folder is a control group's folder for one controller.
type folder struct {
	path string
	v2   bool
}

// group is where the kernel accounts for a sandbox. On v2 all are one. cpuset
// is where its CPUs are said, and empty where the kernel has no such group.
type group struct{ cpu, cpuacct, memory, pids, cpuset folder }

// groups remembers the groups found, by sandbox. Their paths hold the
// container's id, so a stale one can only be missing, never another's.
type groups struct {
	mu sync.Mutex
	m  map[string]group
}

func (g *groups) get(ref string) (group, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.m[ref]
	return v, ok
}

func (g *groups) put(ref string, v group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		g.m = make(map[string]group)
	}
	g.m[ref] = v
}

func (g *groups) drop(ref string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.m, ref)
}

// findGroup finds the group of a process by what the kernel says about it: the
// layout differs between engines and cgroup drivers and is not to be guessed.
func findGroup(pid int) (group, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return group{}, err
	}
	member, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return group{}, err
	}
	return resolveGroup(parseMounts(mounts), parseMembership(member))
}

// hierarchy is one mounted cgroup tree.
type hierarchy struct {
	point string // where it is mounted
	root  string // which of its groups is mounted there
}

// unified stands for the v2 tree in the maps below; v1 trees go by controller.
const unified = ""

// parseMounts reads /proc/self/mountinfo.
func parseMounts(b []byte) map[string]hierarchy {
	out := make(map[string]hierarchy)
	for line := range bytes.Lines(b) {
		left, right, ok := strings.Cut(string(line), " - ")
		f, g := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		h := hierarchy{point: f[4], root: f[3]}
		switch g[0] {
		case "cgroup2":
			out[unified] = h
		case "cgroup":
			for c := range strings.SplitSeq(g[2], ",") {
				if slices.Contains([]string{"cpu", "cpuacct", "memory", "pids", "cpuset"}, c) {
					out[c] = h
				}
			}
		}
	}
	return out
}

// parseMembership reads /proc/PID/cgroup.
func parseMembership(b []byte) map[string]string {
	out := make(map[string]string)
	for line := range bytes.Lines(b) {
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" && f[1] == "" {
			out[unified] = f[2]
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			out[c] = f[2]
		}
	}
	return out
}

// resolveGroup finds each controller's folder, in its v1 tree where it has one.
func resolveGroup(mounts map[string]hierarchy, member map[string]string) (g group, err error) {
	for name, f := range map[string]*folder{"cpu": &g.cpu, "cpuacct": &g.cpuacct, "memory": &g.memory, "pids": &g.pids} {
		if *f, err = resolveFolder(mounts, member, name); err != nil {
			return g, err
		}
	}
	if f, err := resolveFolder(mounts, member, "cpuset"); err == nil {
		g.cpuset = f
	}
	return g, nil
}

func resolveFolder(mounts map[string]hierarchy, member map[string]string, controller string) (folder, error) {
	tree, v2 := controller, false
	if _, ok := mounts[controller]; !ok {
		tree, v2 = unified, true
	}
	h, ok := mounts[tree]
	path, in := member[tree]
	if !ok || !in {
		return folder{}, fmt.Errorf("no control group for %s", controller)
	}
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(h.root, "/"))
	if !ok {
		return folder{}, fmt.Errorf("control group %s is outside of what is mounted at %s", path, h.point)
	}
	if below == "" || below == "/" {
		return folder{}, fmt.Errorf("control group %s for %s is the whole machine's", path, controller)
	}
	return folder{filepath.Join(h.point, below), v2}, nil
}

// number reads a file that holds one.
func (f folder) number(name string) (uint64, error) {
	b, err := os.ReadFile(filepath.Join(f.path, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}

// table reads a file of lines "name number".
func (f folder) table(name string) (map[string]uint64, error) {
	b, err := os.ReadFile(filepath.Join(f.path, name))
	if err != nil {
		return nil, err
	}
	out := make(map[string]uint64)
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		key, value, _ := strings.Cut(sc.Text(), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			out[key] = n
		}
	}
	return out, nil
}
