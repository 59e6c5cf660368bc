package jobfile

import (
	"regexp"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Service is what a group registers, as far as a sandbox is concerned.
type Service struct {
	Name    string
	Port    string   // a label of the group's network, or a number
	Connect *Connect // nil without a connect block
	Pos     Pos
}

// Connect is a service's part in Consul's mesh.
type Connect struct {
	Native      bool // the task speaks to Consul itself
	Sidecar     bool // Nomad adds a proxy to the group
	Transparent bool // what leaves the group's network goes through that proxy
	Upstreams   []Upstream
	Pos         Pos
	// ProxyDriver is the driver that a sidecar_task block gives the proxy, and
	// ProxyPos where; "" leaves it to Nomad.
	ProxyDriver string
	ProxyPos    Pos
}

// Upstream is another service, brought to the group's loopback by the proxy.
type Upstream struct {
	Name string
	Port int
	Pos  Pos
}

// services reads each service. On one node it is checked and not registered,
// which is noted. What is registered is read for a cluster alone.
func (p *parser) services(s section, home checkHome) (out []Service, checks []Check) {
	for _, b := range s.blocks["service"] {
		ss := p.open(s.where+": service", b.Body, serviceRules)
		p.note(b.DefRange(), "%s: service is not registered here: there is neither a Nomad server nor Consul", s.where)
		v := Service{Pos: posOf(b.DefRange())}
		p.judgeService(ss, &v)
		if p.cluster { // else nobody asks, and what it refers to need not be known
			ss.read("port", &v.Port)
			v.Connect = p.connect(ss)
		}
		checks = append(checks, p.checks(ss, home)...)
		out = append(out, v)
	}
	return out, checks
}

// serviceName is what Nomad registers, and standsFor a reference in it.
var (
	serviceName = regexp.MustCompile(`^(?i:[a-z0-9]|[a-z0-9][a-z0-9-]{0,61}[a-z0-9])$`)
	standsFor   = regexp.MustCompile(`\$\{[a-zA-Z0-9_.-]+\}`)
)

// judgeService finds what Nomad refuses in a service beside its checks.
func (p *parser) judgeService(s section, v *Service) {
	if s.read("name", &v.Name) && v.Name != "" && !serviceName.MatchString(standsFor.ReplaceAllString(v.Name, "ENV-VAR")) {
		p.fault(s.attrs["name"].Range(), "%s: name = %q: want letters, digits and dashes within, at most 63", s.where, v.Name)
	}
	mode, address := "", ""
	s.oneOf("address_mode", &mode, "", "auto", "host", "driver", "alloc", "alloc_ipv6")
	if s.read("address", &address); address != "" && mode != "" && mode != "auto" {
		p.fault(s.attrs["address_mode"].Range(), `%s: address_mode = %q and address exclude each other; keep one`, s.where, mode)
	}
}

func (p *parser) connect(s section) *Connect {
	b := s.single("connect")
	if b == nil {
		return nil
	}
	cs := p.open(s.where+": connect", b.Body, connectRules)
	c := &Connect{Pos: posOf(b.DefRange())}
	cs.read("native", &c.Native)
	if tb := cs.single("sidecar_task"); tb != nil {
		ts := p.open(cs.where+": sidecar_task", tb.Body, sidecarTaskRules)
		if ts.read("driver", &c.ProxyDriver) {
			c.ProxyPos = posOf(ts.attrs["driver"].NameRange)
		}
	}
	sidecar := cs.single("sidecar_service")
	if sidecar == nil {
		return c
	}
	c.Sidecar, c.Pos = true, posOf(sidecar.DefRange())
	proxy := p.open(cs.where+": sidecar_service", sidecar.Body, sidecarRules).single("proxy")
	if proxy == nil {
		return c
	}
	ps := p.open(cs.where+": sidecar_service: proxy", proxy.Body, meshProxyRules)
	c.Transparent = ps.single("transparent_proxy") != nil
	for _, ub := range ps.blocks["upstreams"] {
		c.Upstreams = append(c.Upstreams, p.upstream(ps.where, ub))
	}
	return c
}

func (p *parser) upstream(where string, b *hclsyntax.Block) Upstream {
	s := p.open(where+": upstreams", b.Body, upstreamRules)
	u := Upstream{Pos: posOf(b.DefRange())}
	if s.required(b, "destination_name") {
		s.read("destination_name", &u.Name)
	}
	s.whole("local_bind_port", &u.Port, 0)
	return u
}
