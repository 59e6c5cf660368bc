package jobfile

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func (p *parser) group(b *hclsyntax.Block, j *Job) (Group, bool) {
	name, ok := p.label(b)
	if !ok {
		return Group{}, false
	}
	s := p.open(fmt.Sprintf("group %q", name), b.Body, groupRules)
	g := Group{Name: name, Meta: s.pairs("meta", j.Meta), Pos: posOf(b.DefRange())}
	count := 1
	if s.read("count", &count) && count != 1 {
		p.refuse(s.attrs["count"].Range(), "%s: count = %d is not supported by run: it starts one allocation; write count = 1", s.where, count)
	}
	g.Volumes, g.OpenVolumes = p.volumes(s), s.dynamic["volume"]
	g.OpenPorts = s.dynamic["network"]
	if nb := s.single("network"); nb != nil {
		more := false
		g.Network, more = p.network(s.where, nb)
		g.OpenPorts = g.OpenPorts || more
	}
	restart := p.restart(s, defaultRestart(j.Batch()))
	seen := map[string]*hclsyntax.Block{}
	for _, tb := range s.blocks["task"] {
		if t, ok := p.task(tb, g, restart); ok && p.unique(tb, seen) {
			g.Tasks = append(g.Tasks, t)
		}
	}
	g.Services, g.Checks = p.services(s, checkHome{tasks: g.names(), ports: g.ports(), openTasks: s.dynamic["task"], openPorts: g.OpenPorts})
	p.judgeTasks(s, b, g)
	return g, true
}

func (g Group) names() []string {
	var out []string
	for _, t := range g.Tasks {
		out = append(out, t.Name)
	}
	return out
}

func (g Group) ports() []Port {
	if g.Network == nil {
		return nil
	}
	return g.Network.Ports
}

// judgeTasks checks what concerns a group's tasks together.
func (p *parser) judgeTasks(s section, b *hclsyntax.Block, g Group) {
	mains, leaders := 0, 0
	for _, t := range g.Tasks {
		if t.Lifecycle == nil {
			mains++
		}
		if t.Leader {
			leaders++
		}
	}
	if s.dynamic["task"] {
		return
	}
	if len(s.blocks["task"]) == 0 {
		p.fault(b.DefRange(), "%s: there is no task in it", s.where)
	} else if mains == 0 && len(g.Tasks) == len(s.blocks["task"]) {
		p.fault(b.DefRange(), "%s: every task has a lifecycle block; at least one must be a main task without", s.where)
	}
	if leaders > 1 {
		p.fault(b.DefRange(), "%s: %d tasks are leaders; one can be", s.where, leaders)
	}
}

// network reads a network block; more tells of ports that dynamic blocks make.
func (p *parser) network(where string, b *hclsyntax.Block) (n *Network, more bool) {
	s := p.open(where+": network", b.Body, networkRules)
	n = &Network{}
	s.read("mode", &n.Mode)
	s.read("hostname", &n.Hostname)
	if n.Mode != "" && n.Mode != "host" && n.Mode != "none" {
		p.note(s.attrs["mode"].Range(), "%s: mode = %q has no effect here: there is no group network, ports are opened on 127.0.0.1", s.where, n.Mode)
	}
	seen := map[string]*hclsyntax.Block{}
	for _, pb := range s.blocks["port"] {
		if label, ok := p.label(pb); ok && p.unique(pb, seen) {
			ps := p.open(fmt.Sprintf("%s: port %q", s.where, label), pb.Body, portRules)
			port := Port{Label: label}
			ps.whole("static", &port.Static, 1)
			ps.whole("to", &port.To, -1)
			n.Ports = append(n.Ports, port)
		}
	}
	if db := s.single("dns"); db != nil {
		ds := p.open(s.where+": dns", db.Body, dnsRules)
		n.DNS = &DNS{}
		ds.read("servers", &n.DNS.Servers)
		ds.read("searches", &n.DNS.Searches)
		ds.read("options", &n.DNS.Options)
	}
	return n, s.dynamic["port"]
}

// defaultRestart is Nomad's own policy when a job has none.
func defaultRestart(batch bool) Restart {
	if batch {
		return Restart{Attempts: 3, Interval: 24 * time.Hour, Delay: 15 * time.Second, Mode: "fail"}
	}
	return Restart{Attempts: 2, Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: "fail"}
}

// restart reads a restart block on top of the policy that holds without it.
func (p *parser) restart(s section, base Restart) Restart {
	b := s.single("restart")
	if b == nil {
		return base
	}
	rs := p.open(s.where+": restart", b.Body, restartRules)
	rs.whole("attempts", &base.Attempts, 0)
	rs.duration("interval", &base.Interval)
	rs.duration("delay", &base.Delay)
	rs.oneOf("mode", &base.Mode, "fail", "delay")
	for _, name := range []string{"attempts", "interval", "delay", "mode"} {
		if !rs.known(name) {
			return base
		}
	}
	p.judgeRestart(rs, b, base)
	return base
}

// shortestInterval is the least that Nomad counts restarts in.
const shortestInterval = 5 * time.Second

// judgeRestart finds what Nomad refuses in a restart policy.
func (p *parser) judgeRestart(s section, b *hclsyntax.Block, r Restart) {
	if r.Interval < shortestInterval {
		p.fault(b.DefRange(), "%s: interval = %q is below %s, the least there is", s.where, r.Interval, shortestInterval)
	}
	if need := time.Duration(r.Attempts) * r.Delay; need > r.Interval {
		p.fault(b.DefRange(), "%s: %d attempts with delay = %q take %s, longer than interval = %q", s.where, r.Attempts, r.Delay, need, r.Interval)
	}
	if r.Attempts == 0 && r.Mode == "delay" {
		p.fault(b.DefRange(), `%s: attempts = 0 goes with mode = "fail"`, s.where)
	}
}
