package jobfile

import (
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// restartBlock is a check_restart block, of a service or of one of its checks.
type restartBlock struct {
	CheckRestart
	grace bool // it was written
}

// checkRestart reads a check_restart block; nil without one.
func (p *parser) checkRestart(s section) *restartBlock {
	b := s.single("check_restart")
	if b == nil {
		return nil
	}
	rs := p.open(s.where+": check_restart", b.Body, checkRestartRules)
	r := &restartBlock{}
	rs.whole("limit", &r.Limit, 0)
	r.grace = rs.attrs["grace"] != nil
	rs.duration("grace", &r.Grace)
	rs.read("ignore_warnings", &r.IgnoreWarnings)
	return r
}

// merged is what holds for a check: its own block on top of its service's.
// Without a limit nothing is restarted.
func merged(service, own *restartBlock) *CheckRestart {
	if service == nil && own == nil {
		return nil
	}
	r := CheckRestart{Grace: time.Second}
	for _, b := range []*restartBlock{service, own} {
		if b == nil {
			continue
		}
		if b.Limit > 0 {
			r.Limit = b.Limit
		}
		if b.grace {
			r.Grace = b.Grace
		}
		r.IgnoreWarnings = r.IgnoreWarnings || b.IgnoreWarnings
	}
	return &r
}

// checkUpdate reads what a failed check means for the task, and for an update,
// of which there is none here; the two must agree.
func (p *parser) checkUpdate(s section, b *hclsyntax.Block, c *Check, v checked) {
	update := v.onUpdate
	s.oneOf("on_update", &update, "require_healthy", "ignore_warnings", "ignore")
	r := merged(v.restart, p.checkRestart(s))
	at := b.DefRange()
	switch {
	case c.Provider == "nomad" && update == "ignore_warnings":
		p.fault(at, `%s: on_update = "ignore_warnings" is for services of the provider "consul" alone`, s.where)
	case r == nil:
	case c.Provider == "nomad" && r.IgnoreWarnings:
		p.fault(at, `%s: check_restart: ignore_warnings is for services of the provider "consul" alone`, s.where)
	case update == "ignore":
		p.fault(at, `%s: on_update = "ignore" and check_restart exclude each other; keep one`, s.where)
	case update == "ignore_warnings" && !r.IgnoreWarnings:
		p.fault(at, `%s: on_update = "ignore_warnings" wants ignore_warnings = true in check_restart, too`, s.where)
	}
	if r != nil && r.Limit > 0 {
		c.Restart = r
	}
}

// Map gives a check whose texts are replaced, each by itself.
func (c Check) Map(replace func(string) string) Check {
	for _, text := range []*string{
		&c.Name, &c.Service, &c.Command, &c.Port, &c.Protocol, &c.Method, &c.Path, &c.Body, &c.GRPCService, &c.ServerName,
	} {
		*text = replace(*text)
	}
	args := make([]string, 0, len(c.Args))
	for _, a := range c.Args {
		args = append(args, replace(a))
	}
	header := map[string][]string{}
	for name, values := range c.Header {
		for _, v := range values {
			header[replace(name)] = append(header[replace(name)], replace(v))
		}
	}
	c.Args, c.Header = args, header
	return c
}
