package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/jobfile"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host/taskenv"
)

// loopback is where the ports of a group are opened on this machine.
const loopback = "127.0.0.1"

// placement is what a scheduler would decide about a group.
type placement struct {
	job   *jobfile.Job
	group jobfile.Group
	node  host.Node
	alloc string // allocation id
	child string // of a dispatched job: what its id has behind the job's own
	ports []host.Port
	cores map[string][]host.Core // reserved ones by task
}

// place decides about a group on a node. The errors are what the node can't
// give, all of them.
func place(job *jobfile.Job, group jobfile.Group, node host.Node) (*placement, error) {
	if job.Region != "" {
		node.Region = job.Region
	}
	p := &placement{job: job, group: group, node: node, alloc: uuid.NewString(), cores: map[string][]host.Core{}}
	if job.Dispatched {
		p.child = fmt.Sprintf("/dispatch-%d-%s", time.Now().Unix(), uuid.NewString()[:8])
	}
	return p, errors.Join(p.placePorts(), p.placeCores())
}

// jobID is the job's id. Each dispatch is a job of its own, whose name is its id.
func (p *placement) jobID() string { return p.job.ID + p.child }

func (p *placement) jobName() string {
	if p.child != "" {
		return p.jobID()
	}
	return p.job.Name
}

// parentID is the id of the job that a dispatched one was made of, "" for others.
func (p *placement) parentID() string {
	if p.child != "" {
		return p.job.ID
	}
	return ""
}

func (p *placement) placePorts() error {
	if p.group.Network == nil {
		return nil
	}
	var errs []error
	for _, want := range p.group.Network.Ports {
		value := want.Static
		if value == 0 {
			var err error
			if value, err = freePort(); err != nil {
				errs = append(errs, fmt.Errorf("port %q: %w", want.Label, err))
				continue
			}
		}
		to := want.To
		if to == -1 {
			to = value
		}
		p.ports = append(p.ports, host.Port{Label: want.Label, Value: int32(value), To: int32(to), HostIP: loopback})
	}
	return errors.Join(errs...)
}

// address is where a port of the group, by its label or its number on this
// machine, is to be reached.
func (p *placement) address(port string) (string, error) {
	for _, have := range p.ports {
		if have.Label == port {
			return net.JoinHostPort(have.HostIP, strconv.Itoa(int(have.Value))), nil
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("port %q is neither a label of the group's network nor a number", port)
	}
	return net.JoinHostPort(loopback, port), nil
}

// portText says where a port is to be found.
func portText(p host.Port) string {
	text := fmt.Sprintf("Port %s: %s", p.Label, net.JoinHostPort(p.HostIP, strconv.Itoa(int(p.Value))))
	if p.To > 0 && p.To != p.Value {
		text += fmt.Sprintf(", which is %d in the tasks that list it", p.To)
	}
	return text
}

// freePort finds a port nobody listens on. It is free again when it is handed
// on, as a port that a scheduler picks is.
func freePort() (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (p *placement) placeCores() error {
	free := p.node.Cores
	var errs []error
	for _, t := range p.group.Tasks {
		n := t.Resources.Cores
		if n > len(free) {
			errs = append(errs, fmt.Errorf("%s: task %q: cores = %d, but %d of the %d cores are left", t.Pos, t.Name, n, len(free), len(p.node.Cores)))
			continue
		}
		p.cores[t.Name], free = free[:n], free[n:]
	}
	return errors.Join(errs...)
}

// cpu is a task's share in MHz: what it asked for, or the sum of its cores.
func (p *placement) cpu(t jobfile.Task) int64 {
	if t.Resources.Cores == 0 {
		return int64(t.Resources.CPU)
	}
	return megahertz(p.cores[t.Name])
}

func megahertz(cores []host.Core) int64 {
	var sum int64
	for _, c := range cores {
		sum += int64(c.MHz)
	}
	return sum
}

// cpuset lists a task's reserved cores, "0,1"; "" without.
func (p *placement) cpuset(t jobfile.Task) string {
	var ids []string
	for _, c := range p.cores[t.Name] {
		ids = append(ids, strconv.Itoa(int(c.ID)))
	}
	return strings.Join(ids, ",")
}

// resources is a task's share of the node.
func (p *placement) resources(t jobfile.Task) host.Resources {
	r := host.Resources{
		CPU:         p.cpu(t),
		MemoryMB:    int64(t.Resources.MemoryMB),
		MemoryMaxMB: int64(t.Resources.MemoryMaxMB),
		Cores:       p.cpuset(t),
		Ports:       p.ports,
	}
	if all := megahertz(p.node.Cores); all > 0 {
		r.CPUFraction = min(float64(r.CPU)/float64(all), 1)
	}
	return r
}

// environment describes a task to whoever builds its environment.
func (p *placement) environment(t jobfile.Task) taskenv.Task {
	e := taskenv.Task{
		JobID: p.jobID(), JobName: p.jobName(), ParentJobID: p.parentID(), Namespace: p.job.Namespace,
		Group: p.group.Name, Name: t.Name, AllocID: p.alloc,
		CPU: p.cpu(t), MemoryMB: int64(t.Resources.MemoryMB), MemoryMaxMB: int64(t.Resources.MemoryMaxMB),
		Cores: p.cpuset(t), Meta: t.Meta, Env: t.Env,
	}
	for _, port := range p.ports {
		e.Ports = append(e.Ports, taskenv.Port(port))
	}
	return e
}

// dns is the name resolution the group asks for.
func (p *placement) dns() *host.DNS {
	if p.group.Network == nil || p.group.Network.DNS == nil {
		return nil
	}
	d := host.DNS(*p.group.Network.DNS)
	return &d
}
