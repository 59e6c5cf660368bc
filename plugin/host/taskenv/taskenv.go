// Package taskenv builds the environment a Nomad client gives a task, and the names a task's
// configuration may refer to.
package taskenv

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// Node is what a client knows about itself.
type Node struct {
	ID         string
	Name       string
	Datacenter string
	Region     string
	Class      string
	Pool       string
	Attributes map[string]string // kernel.name, driver.wardyn, ...
	Meta       map[string]string
}

// Task is one task of an allocation.
type Task struct {
	JobID       string
	JobName     string
	ParentJobID string
	Namespace   string
	Group       string
	Name        string
	AllocID     string
	AllocIndex  int
	CPU         int64  // MHz
	MemoryMB    int64  // MiB
	MemoryMaxMB int64  // MiB; 0 is not set
	Cores       string // "0,3"; empty without reserved cores
	Ports       []Port
	Meta        map[string]string // of job, group and task, the innermost winning
	Tokens      map[string]string // of workload identities, by the variables' names
	Env         map[string]string // the job's env block; values may refer to other names
	Rendered    map[string]string // of templates, taken as they are
	Upstreams   []Upstream        // of the group's services in Consul's mesh
}

// Upstream is another service, which a proxy of the group brings to its loopback.
type Upstream struct {
	Name string
	Port int // on the loopback
}

// Port is one port of the group's network.
type Port struct {
	Label  string
	Value  int32 // on the host
	To     int32 // inside the task; 0 is the same
	HostIP string
}

// Dirs is where the task finds its directories.
type Dirs struct {
	Alloc   string
	Local   string
	Secrets string
}

// ImageDirs are the directories of a task that runs in an image of its own.
var ImageDirs = Dirs{Alloc: "/alloc", Local: "/local", Secrets: "/secrets"}

// loopback is where the proxy of a mesh listens.
const loopback = "127.0.0.1"

// Build returns the environment of a task: Nomad's own variables, then the job's, whose values
// have ${...} references to any of them, and to node facts, replaced, then those of templates.
// References go by the names of ports and meta as the job has them; in the result these are
// cleaned.
func Build(n Node, t Task, d Dirs) map[string]string {
	env := map[string]string{
		"NOMAD_ALLOC_DIR":      d.Alloc,
		"NOMAD_TASK_DIR":       d.Local,
		"NOMAD_SECRETS_DIR":    d.Secrets,
		"NOMAD_ALLOC_ID":       t.AllocID,
		"NOMAD_SHORT_ALLOC_ID": short(t.AllocID),
		"NOMAD_ALLOC_NAME":     fmt.Sprintf("%s.%s[%d]", t.JobName, t.Group, t.AllocIndex),
		"NOMAD_ALLOC_INDEX":    strconv.Itoa(t.AllocIndex),
		"NOMAD_GROUP_NAME":     t.Group,
		"NOMAD_TASK_NAME":      t.Name,
		"NOMAD_JOB_ID":         t.JobID,
		"NOMAD_JOB_NAME":       t.JobName,
		"NOMAD_NAMESPACE":      t.Namespace,
		"NOMAD_DC":             n.Datacenter,
		"NOMAD_REGION":         n.Region,
		"NOMAD_CPU_LIMIT":      strconv.FormatInt(t.CPU, 10),
		"NOMAD_MEMORY_LIMIT":   strconv.FormatInt(t.MemoryMB, 10),
	}
	if t.ParentJobID != "" {
		env["NOMAD_JOB_PARENT_ID"] = t.ParentJobID
	}
	if t.MemoryMaxMB > 0 {
		env["NOMAD_MEMORY_MAX_LIMIT"] = strconv.FormatInt(t.MemoryMaxMB, 10)
	}
	if t.Cores != "" {
		env["NOMAD_CPU_CORES"] = t.Cores
	}
	maps.Copy(env, t.Tokens)
	addPorts(env, t.Ports)
	for _, u := range t.Upstreams {
		name, port := Clean(u.Name), strconv.Itoa(u.Port)
		env["NOMAD_UPSTREAM_IP_"+name] = loopback
		env["NOMAD_UPSTREAM_PORT_"+name] = port
		env["NOMAD_UPSTREAM_ADDR_"+name] = net.JoinHostPort(loopback, port)
	}
	addMeta(env, n, t.Meta)
	addJobEnv(env, n, t.Env)
	maps.Copy(env, t.Rendered)
	return cleaned(env)
}

// addPorts names the ports by their labels as they are; see cleaned.
func addPorts(env map[string]string, ports []Port) {
	for _, p := range ports {
		inside := p.Value
		if p.To > 0 {
			inside = p.To
		}
		host := strconv.Itoa(int(p.Value))
		env["NOMAD_PORT_"+p.Label] = strconv.Itoa(int(inside))
		env["NOMAD_ALLOC_PORT_"+p.Label] = strconv.Itoa(int(inside))
		env["NOMAD_HOST_PORT_"+p.Label] = host
		for _, kind := range []string{"NOMAD_", "NOMAD_HOST_"} {
			env[kind+"IP_"+p.Label] = p.HostIP
			env[kind+"ADDR_"+p.Label] = net.JoinHostPort(p.HostIP, host)
		}
	}
}

// addMeta names meta by its keys as they are and in capitals. Keys and values may refer to
// what is in env and to node facts, not to each other.
func addMeta(env map[string]string, n Node, meta map[string]string) {
	known := n.known(env)
	for k, v := range meta {
		for _, name := range []string{k, strings.ToUpper(k)} {
			env["NOMAD_META_"+Interpolate(name, known)] = Interpolate(v, known)
		}
	}
}

// addJobEnv replaces references in the job's values. They see Nomad's variables and node
// facts, not each other.
func addJobEnv(env map[string]string, n Node, own map[string]string) {
	known := n.known(env)
	for k, v := range own {
		env[k] = Interpolate(v, known)
	}
}

// known is an environment and the node's facts, as texts may refer to them.
func (n Node) known(env map[string]string) map[string]string {
	known := maps.Clone(env)
	for prefix, facts := range map[string]map[string]string{
		"node.": n.Facts(), "attr.": n.Attributes, "meta.": n.Meta,
	} {
		for k, v := range facts {
			known[prefix+k] = v
		}
	}
	return known
}

var reference = regexp.MustCompile(`\$\{[a-zA-Z0-9_.-]+\}`)

// Interpolate replaces each ${name} that is known; others stay as they are, and so does one
// with spaces in its braces.
func Interpolate(text string, known map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(m string) string {
		if v, ok := known[m[2:len(m)-1]]; ok {
			return v
		}
		return m
	})
}

// Facts are the node.* names, without the prefix.
func (n Node) Facts() map[string]string {
	return map[string]string{
		"unique.id": n.ID, "unique.name": n.Name, "datacenter": n.Datacenter,
		"region": n.Region, "class": n.Class, "pool": n.Pool,
	}
}

func short(id string) string { return id[:min(8, len(id))] }
