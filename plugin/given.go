package plugin

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/wardyn/nomad-driver-wardyn/internal/ports"
	"github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire/driverpb"
	"github.com/wardyn/nomad-driver-wardyn/runner"
)

// given is what Nomad adds to an author's words: environment, resources,
// mounts of volumes and plugins. Read and checked like the rest.
type given struct {
	Env       map[string]string
	Mounts    []runner.TaskMount
	Devices   []runner.Device
	MemoryMiB int64 // hard limit; 0 when Nomad says "no limit"
	SoftMiB   int64 // reservation below it, 0 without one
	Unlimited bool  // the author asked for no limit
	CPUShares int64
	CPUShare  float64 // part of the node's compute, 0 to 1
	Cores     string  // "" when none are pinned
	Ports     []ports.Port
}

// readGiven reads what a client sent beside the author's config.
func readGiven(t *driverpb.TaskConfig, a ask, h HostConfig, f *faults) given {
	g := given{Env: taskEnv(t.GetEnv(), a, f)}
	checkTaskName(t.GetName(), f)
	if checkUser(t.GetUser(), f) {
		checkUserGroup(t.GetUser(), h.Limits, f)
	}
	g.readResources(t.GetResources(), h, f)
	g.readMounts(t.GetMounts(), a, f)
	g.readPorts(t, a, h, f)
	g.readDevices(t.GetDevices(), h.Limits, f)
	return g
}

// taskEnv is a task's environment without what is not for it: the tokens that
// Nomad puts there, and the path of a folder that is not mounted.
func taskEnv(env map[string]string, a ask, f *faults) map[string]string {
	out := make(map[string]string, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		switch {
		case strings.HasPrefix(k, "WARDYN_"), strings.HasPrefix(k, "RAINIER_"):
			f.add("env."+k, nil, "variables of this name are the driver's", "rename it")
		case strings.HasPrefix(k, "NOMAD_UPSTREAM_ADDR_"):
			f.add("connect", strings.TrimPrefix(k, "NOMAD_UPSTREAM_ADDR_"), "upstreams of the service mesh listen on the group's loopback, which a sandbox does not see",
				"remove the upstream, or allow the service's own host in egress.allow")
		case isToken(k) && !a.Tokens:
		case k == "NOMAD_SECRETS_DIR" && !a.Secrets:
		default:
			out[k] = env[k]
		}
	}
	return out
}

// noteEnv says which variables the sandbox does not get as they were given.
func (a *ask) noteEnv(given map[string]string) {
	var tokens, proxies []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case isToken(name) && !a.Tokens:
			tokens = append(tokens, name)
		case isProxy(name) && !a.NoNetwork:
			proxies = append(proxies, name)
		}
	}
	if len(tokens) > 0 {
		a.note("Left out of the task's environment: " + strings.Join(tokens, ", ") + "; expose_tokens = true leaves them there, if the operator allows it (plugin option of that name)")
	}
	if len(proxies) > 0 {
		a.note("Without effect in the task's environment: " + strings.Join(proxies, ", ") + "; " + ownProxy)
	}
}

// ownProxy is why a job's own proxy counts for nothing.
const ownProxy = "the sandbox's proxy is the only one that it reaches"

// isProxy reports whether a variable tells programs which proxy to use.
func isProxy(name string) bool {
	return slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}, strings.ToUpper(name))
}

// isToken reports whether a variable is a credential that Nomad adds by itself.
func isToken(name string) bool {
	return name == "NOMAD_TOKEN" || strings.HasPrefix(name, "NOMAD_TOKEN_") || name == "VAULT_TOKEN"
}

// checkTaskName refuses a task whose folder is not one of its own: a client puts
// it below the allocation's under exactly this name. ".." leads to the folders
// of other allocations, and "alloc" is what every task can write in, where the
// driver's files about the task would lie.
func checkTaskName(name string, f *faults) {
	switch {
	case name == "", name == ".", name == "..", strings.ContainsAny(name, "/\x00"):
		f.add("task", name, "its folder would lie outside the allocation's", "rename the task")
	case name == sharedFolder:
		f.add("task", name, "the folder of this name is the one that all tasks of the group share", "rename the task")
	}
}

// sharedFolder is the name, in an allocation, of the folder for all its tasks.
const sharedFolder = "alloc"

// checkUser refuses what no engine takes for a user. Whether a name exists only
// the image knows. It reports whether the user is fine.
func checkUser(user string, f *faults) bool {
	before := len(f.list)
	for part := range strings.SplitSeq(user, ":") {
		id, err := strconv.ParseInt(part, 10, 64)
		switch {
		case err == nil && (id < 0 || id > math.MaxInt32), errors.Is(err, strconv.ErrRange):
			f.add("user", user, "a user or group id is from 0 to 2147483647", "")
		case strings.ContainsFunc(part, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
			f.add("user", user, "the name of a user or group has no blanks", "")
		}
	}
	return len(f.list) == before
}

// checkUserGroup holds the group of "user:group" to the rule of group_add. The
// user's own group, of the same number or name, is what the user brings anyway.
func checkUserGroup(user string, r LimitRules, f *faults) {
	name, group, named := strings.Cut(user, ":")
	if !named || group == name {
		return
	}
	id, err := strconv.ParseInt(group, 10, 64)
	switch {
	case err != nil:
		f.add("user", user, "want the number of a group: names differ between image and host", "write the user alone for the group that the image gives it")
	case !slices.Contains(r.Groups, id):
		f.add("user", user, fmt.Sprintf("the operator does not allow the group %s (plugin option allow_groups)", group), "write the user alone for the group that the image gives it")
	}
}

func (g *given) readResources(r *driverpb.Resources, h HostConfig, f *faults) {
	mem := r.GetAllocatedResources().GetMemory()
	g.MemoryMiB = mem.GetMemoryMb()
	switch most := mem.GetMemoryMaxMb(); {
	case most < 0: // no limit but the operator's
		g.SoftMiB, g.MemoryMiB, g.Unlimited = g.MemoryMiB, h.MaxMemoryMiB, true
	case most > g.MemoryMiB:
		g.SoftMiB, g.MemoryMiB = g.MemoryMiB, most
	}
	if h.MaxMemoryMiB > 0 && max(g.MemoryMiB, g.SoftMiB) > h.MaxMemoryMiB {
		f.add("resources.memory", max(g.MemoryMiB, g.SoftMiB), fmt.Sprintf("the operator's maximum is %d MiB (plugin option max_memory)", h.MaxMemoryMiB), "ask for less")
	}
	if g.MemoryMiB > 0 && g.MemoryMiB < runner.MinMemoryMiB {
		f.add("resources.memory", g.MemoryMiB, fmt.Sprintf("a sandbox needs %d MiB", runner.MinMemoryMiB), "ask for more, or set memory_max")
	}
	l := r.GetLinuxResources()
	g.CPUShares, g.CPUShare, g.Cores = l.GetCpuShares(), l.GetPercentTicks(), l.GetCpusetCpus()
}

// readMounts reads the mounts that come from volume_mount blocks and plugins.
// Their sources are the operator's and stand as given.
func (g *given) readMounts(mounts []*driverpb.Mount, a ask, f *faults) {
	seen := map[string]bool{}
	for _, m := range mounts {
		if err := checkTarget(m.GetTaskPath()); err != nil {
			f.add("volume_mount", m.GetTaskPath(), err.Error(), "mount it elsewhere")
			continue
		}
		target := path.Clean(m.GetTaskPath())
		if seen[target] || a.mountsAt(target) || a.keeps(target) {
			f.add("volume_mount", target, "something else is mounted there already", "remove one of the two")
			continue
		}
		seen[target] = true
		switch p := m.GetPropagationMode(); p {
		case "", "private":
		default:
			f.add("volume_mount.propagation_mode", p, "mounts made later do not cross into or out of a sandbox", `write "private"`)
			continue
		}
		g.Mounts = append(g.Mounts, runner.TaskMount{
			Source: m.GetHostPath(), Target: target, ReadOnly: m.GetReadonly(),
		})
	}
}
