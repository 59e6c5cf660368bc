package jobfile

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// checkTask finds the task that a check is about.
func (p *parser) checkTask(s section, b *hclsyntax.Block, c *Check, v checked) {
	given := s.read("task", &c.Task)
	at := b.DefRange()
	if given {
		at = s.attrs["task"].Range()
	}
	switch {
	case given && c.OfTask && c.Task != v.home.task:
		p.refuse(at, "%s: task = %q: a check of a task's service belongs to that task; drop the line", s.where, c.Task)
	case c.Task != "" && !v.home.openTasks && !slices.Contains(v.home.tasks, c.Task):
		p.fault(at, "%s: the group has no task %q%s", s.where, c.Task, suggest(c.Task, v.home.tasks))
	case c.Task == "" && c.Type == "script" && s.known("task"):
		p.fault(at, `%s: in which task is the script to run? write task = "..." into the check or its service`, s.where)
	}
}

// threshold reads how many results in a row it takes. Nomad takes a negative
// one for none.
func (s section) threshold(name string, c Check) int {
	n := 0
	s.whole(name, &n, math.MinInt)
	switch {
	case n <= 0:
		return 0
	case c.Provider == "nomad":
		s.p.fault(s.attrs[name].Range(), `%s: %s is for services of the provider "consul" alone`, s.where, name)
		return 0
	case c.Type == "script":
		s.p.note(s.attrs[name].Range(), "%s: %s has no effect here: Nomad knows it for grpc, http and tcp checks alone, and refuses the job", s.where, name)
		return 0
	}
	return n
}

// lists reads a block, or map, of lists of texts.
func (s section) lists(name string) map[string][]string {
	out := map[string][]string{}
	if b := s.single(name); b != nil {
		s.p.noBlocks(name, b)
		for _, a := range inOrder(b.Body.Attributes) {
			var values []string
			(section{p: s.p, where: s.where + ": " + name, attrs: b.Body.Attributes}).read(a.Name, &values)
			out[a.Name] = values
		}
	}
	return out
}

// judgeCheck finds what Nomad refuses in a check by itself.
func (p *parser) judgeCheck(s section, b *hclsyntax.Block, c *Check) {
	switch c.Type {
	case "script":
		if c.Command == "" && s.known("command") {
			p.fault(b.DefRange(), "%s: command is missing: which program is the check?", s.where)
		}
	case "http":
		u, err := url.Parse(c.Path)
		switch {
		case c.Path == "" && s.known("path"):
			p.fault(b.DefRange(), `%s: path is missing, such as path = "/health"`, s.where)
		case err != nil || u.IsAbs():
			p.fault(s.attrs["path"].Range(), `%s: path = %q is no path, such as "/health"`, s.where, c.Path)
		}
	}
	exposed := false
	if s.read("expose", &exposed); exposed && c.Type != "http" && c.Type != "grpc" {
		p.fault(s.attrs["expose"].Range(), "%s: expose is for http and grpc checks alone", s.where)
	} else if exposed {
		p.note(s.attrs["expose"].Range(), "%s: expose has no effect here: %s, hence no service mesh", s.where, noConsul)
	}
	if c.Provider == "nomad" && c.ServerName != "" {
		p.fault(s.attrs["tls_server_name"].Range(), `%s: tls_server_name is for services of the provider "consul" alone`, s.where)
	}
	var notes string
	if s.read("notes", &notes) && len(notes) > 255 {
		p.fault(s.attrs["notes"].Range(), "%s: notes has %d characters; 255 are the most", s.where, len(notes))
	}
}

// checkPort finds the port: the check's own or its service's.
func (p *parser) checkPort(s section, b *hclsyntax.Block, c *Check, v checked) {
	c.Port = v.Port
	at := b.DefRange()
	if s.read("port", &c.Port) {
		at = s.attrs["port"].Range()
	}
	if s.oneOf("address_mode", &c.AddressMode, "host", "alloc", "driver", "alloc_ipv6"); c.AddressMode == "driver" || c.AddressMode == "alloc_ipv6" {
		p.refuse(s.attrs["address_mode"].Range(), "%s: address_mode = %q is not supported by run: a task has no such address here; drop the line", s.where, c.AddressMode)
	}
	if c.Type == "script" || strings.Contains(c.Port, "${") {
		return
	}
	if c.OfTask && c.AddressMode == "alloc" {
		p.fault(s.attrs["address_mode"].Range(), `%s: address_mode = "alloc" is for checks of a group's service; drop the line`, s.where)
	}
	_, notNumber := strconv.ParseUint(c.Port, 10, 16)
	switch {
	case c.Port == "" && s.attrs["expose"] != nil: // Nomad makes one
	case c.Port == "" && !(s.known("port") && v.portKnown):
	case c.Port == "":
		p.fault(at, `%s: port is missing: write port = "LABEL", a label of the group's network, into the check or its service`, s.where)
	case v.home.knows(c.Port):
	case notNumber != nil && !c.OfTask: // which Nomad takes
		p.refuse(at, "%s: port = %q is no label of the group's network%s", s.where, c.Port, suggest(c.Port, labels(v.home.ports)))
	case notNumber != nil:
		p.fault(at, "%s: port = %q is no label of the group's network%s", s.where, c.Port, suggest(c.Port, labels(v.home.ports)))
	case c.AddressMode == "alloc":
		p.refuse(at, "%s: port = %q with address_mode = \"alloc\" is not supported by run: there is no group network; name the port's label", s.where, c.Port)
	case c.OfTask && c.AddressMode != "driver":
		p.fault(at, "%s: port = %q: a check of a task's service takes a label of the group's network", s.where, c.Port)
	}
}

func labels(ports []Port) []string {
	var out []string
	for _, p := range ports {
		out = append(out, p.Label)
	}
	return out
}
