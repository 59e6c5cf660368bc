package jobfile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Check is how a service's health is found out. Texts may still hold runtime
// references.
type Check struct {
	Name     string `json:",omitempty"` // "" when it has none of its own
	Service  string
	Provider string // consul or nomad; they judge differently
	Type     string // grpc, http, script or tcp
	// Task is the one a script runs in, or that the service is about; "" is the
	// whole group.
	Task string `json:",omitempty"`
	// OfTask is set for a check of a task's own service: it goes on while that
	// task runs, and restarts it alone.
	OfTask bool `json:",omitempty"`

	Command string   `json:",omitempty"` // of a script
	Args    []string `json:",omitempty"`

	Port        string              `json:",omitempty"` // a label of the group's network, or a number
	AddressMode string              `json:",omitempty"`
	Protocol    string              `json:",omitempty"` // http or https; "" is http
	Method      string              `json:",omitempty"` // "" is GET
	Path        string              `json:",omitempty"`
	Header      map[string][]string `json:",omitempty"`
	Body        string              `json:",omitempty"`
	GRPCService string              `json:",omitempty"`
	GRPCUseTLS  bool                `json:",omitempty"`
	ServerName  string              `json:",omitempty"` // for TLS
	SkipVerify  bool                `json:",omitempty"`

	Interval, Timeout time.Duration
	InitialStatus     string `json:",omitempty"` // "" is the provider's

	// How many results in a row it takes; 0 is one, and as many failures for a
	// warning as for critical.
	SuccessBeforePassing   int `json:",omitempty"`
	FailuresBeforeCritical int `json:",omitempty"`
	FailuresBeforeWarning  int `json:",omitempty"`

	Restart *CheckRestart `json:",omitempty"` // nil restarts nothing
	Pos     Pos           `json:"-"`
}

// CheckRestart restarts tasks after Limit failures in a row, none of them in
// the time of Grace.
type CheckRestart struct {
	Limit          int
	Grace          time.Duration
	IgnoreWarnings bool
}

var checkRules = table{
	attrs: map[string]rule{
		"name": {}, "type": {}, "task": {}, "command": {}, "args": {}, "port": {}, "address_mode": {},
		"protocol": {}, "method": {}, "path": {}, "body": {}, "grpc_service": {}, "grpc_use_tls": {},
		"tls_server_name": {}, "tls_skip_verify": {}, "interval": {}, "timeout": {}, "initial_status": {},
		"success_before_passing": {}, "failures_before_critical": {}, "failures_before_warning": {},
		"on_update": {}, "notes": {}, "advertise": {verdict: skip},
		"expose": {},
	},
	blocks: map[string]rule{"header": {}, "check_restart": {}},
}

var checkRestartRules = table{attrs: map[string]rule{"limit": {}, "grace": {}, "ignore_warnings": {}}}

// checked is a service as its checks see it.
type checked struct {
	Service
	provider, task, onUpdate string
	portKnown                bool
	restart                  *restartBlock
	home                     checkHome
}

// checkHome is where a service stands.
type checkHome struct {
	task  string // "" for a group's own service
	tasks []string
	ports []Port
	// There may be more of them than are listed.
	openTasks, openPorts bool
}

func (h checkHome) knows(label string) bool {
	return h.openPorts || slices.ContainsFunc(h.ports, func(p Port) bool { return p.Label == label })
}

// checks reads the checks of a service and what they inherit from it.
func (p *parser) checks(s section, home checkHome) []Check {
	if len(s.blocks["check"]) == 0 {
		return nil // what the service refers to need not be known then
	}
	v := checked{home: home, provider: "consul", task: home.task, portKnown: s.known("port")}
	s.read("name", &v.Name)
	s.read("port", &v.Port)
	s.oneOf("provider", &v.provider, "consul", "nomad")
	s.oneOf("on_update", &v.onUpdate, "require_healthy", "ignore_warnings", "ignore")
	if s.read("task", &v.task) && home.task != "" && v.task != home.task {
		p.fault(s.attrs["task"].Range(), "%s: task = %q: a service of a task belongs to that task; drop the line", s.where, v.task)
	}
	if s.attrs["address"] != nil {
		p.note(s.attrs["address"].Range(), "%s: address has no effect here: ports are opened on 127.0.0.1, and checked there", s.where)
	}
	v.restart = p.checkRestart(s)
	var out []Check
	names := map[string]Pos{}
	for _, b := range s.blocks["check"] {
		c := p.check(s, b, v)
		if first, twice := names[c.Name]; twice && home.task != "" {
			p.fault(b.DefRange(), "%s: a second check of the name %q, the first is at %s", s.where, c.Name, first)
		}
		if c.Name != "" || b.Body.Attributes["name"] == nil { // else it could not be read
			names[c.Name] = c.Pos
		}
		out = append(out, c)
	}
	return out
}

func (p *parser) check(service section, b *hclsyntax.Block, v checked) Check {
	s := p.open(service.where+": check", b.Body, checkRules)
	c := Check{Service: v.Name, Provider: v.provider, Task: v.task, OfTask: v.home.task != "", Pos: posOf(b.DefRange())}
	if s.read("name", &c.Name) {
		s.where = fmt.Sprintf("%s %q", s.where, c.Name)
	}
	p.checkType(s, b, &c)
	s.interval(b, "interval", &c.Interval)
	s.interval(b, "timeout", &c.Timeout)
	s.oneOf("initial_status", &c.InitialStatus, "", "passing", "warning", "critical")
	p.checkTask(s, b, &c, v)
	s.read("command", &c.Command)
	s.read("args", &c.Args)
	s.read("protocol", &c.Protocol)
	s.read("method", &c.Method)
	s.read("path", &c.Path)
	s.read("body", &c.Body)
	s.read("grpc_service", &c.GRPCService)
	s.read("grpc_use_tls", &c.GRPCUseTLS)
	s.read("tls_server_name", &c.ServerName)
	s.read("tls_skip_verify", &c.SkipVerify)
	c.Header = s.lists("header")
	c.SuccessBeforePassing = s.threshold("success_before_passing", c)
	c.FailuresBeforeCritical = s.threshold("failures_before_critical", c)
	c.FailuresBeforeWarning = s.threshold("failures_before_warning", c)
	p.judgeCheck(s, b, &c)
	p.checkPort(s, b, &c, v)
	p.checkUpdate(s, b, &c, v)
	return c
}

// checkType reads the type; Nomad's own services know two of them.
func (p *parser) checkType(s section, b *hclsyntax.Block, c *Check) {
	if !s.required(b, "type") || !s.read("type", &c.Type) {
		return
	}
	c.Type = strings.ToLower(c.Type)
	known := []string{"grpc", "http", "script", "tcp"}
	switch at := s.attrs["type"].Range(); {
	case !slices.Contains(known, c.Type):
		p.fault(at, "%s: type = %q is none of %s", s.where, c.Type, strings.Join(known, ", "))
	case c.Provider == "nomad" && c.Type != "http" && c.Type != "tcp":
		p.fault(at, `%s: type = %q: services of the provider "nomad" have http and tcp checks alone; give the service provider = "consul"`, s.where, c.Type)
	}
}

// interval reads how often, or how long; a second is the least.
func (s section) interval(b *hclsyntax.Block, name string, into *time.Duration) {
	if !s.required(b, name) {
		return
	}
	*into = time.Second // unless it can be read
	s.duration(name, into)
	if *into < time.Second {
		s.p.fault(s.attrs[name].Range(), "%s: %s = %q is below a second, the least there is", s.where, name, *into)
	}
}
