package jobfile

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// DefaultIdentity is the name of the identity that a block without a name is
// about. It is for Nomad's own API, does not end and is not renewed.
const DefaultIdentity = "default"

// Identity is a token that says which workload its bearer is.
type Identity struct {
	Name     string
	Audience []string `json:",omitempty"`
	Env      bool     `json:",omitempty"` // in the task's environment; see Variable
	// File is where the token is written, relative to the task's directory, ""
	// for nowhere. What the group's tasks share is at ../alloc.
	File         string        `json:",omitempty"`
	TTL          time.Duration `json:",omitempty"` // 0 never ends
	ChangeMode   string        // what a new token does to the task: noop, restart or signal
	ChangeSignal string        `json:",omitempty"` // in capitals
	Pos          Pos           `json:"-"`
}

// Variable is the environment variable that Env puts the token into.
func (i Identity) Variable() string {
	if i.Name == DefaultIdentity {
		return "NOMAD_TOKEN"
	}
	return "NOMAD_TOKEN_" + i.Name
}

// identityName is what files and variables can be named after.
var identityName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// nomadAudience is whom the default identity is for, whatever a job says.
const nomadAudience = "nomadproject.io"

// quickestRenewal is what a client waits at least before it renews a token.
const quickestRenewal = 10 * time.Second

// tokenFolders are those of a task's directory that a sandbox can have and that
// are there when tokens are written.
var tokenFolders = []string{"local", "secrets", "../alloc", "../alloc/data", "../alloc/tmp"}

// clientSignals are those that a client knows by name. A job with another one is
// taken, and its task fails at the first renewal.
var clientSignals = strings.Fields(`SIGABRT SIGALRM SIGBUS SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGNULL SIGPIPE SIGPROF
	SIGQUIT SIGSEGV SIGSTOP SIGSYS SIGTERM SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGUSR1 SIGUSR2 SIGWINCH SIGXCPU SIGXFSZ`)

// identities reads a task's identity blocks.
func (p *parser) identities(s section) []Identity {
	var out []Identity
	for _, b := range s.blocks["identity"] {
		id, ok := p.identity(s.where, b)
		if !ok {
			continue
		}
		first := slices.IndexFunc(out, func(o Identity) bool { return o.Name == id.Name })
		switch {
		case first < 0:
			out = append(out, id)
		case id.Name == DefaultIdentity:
			p.refuse(b.DefRange(), "%s: a second identity block without a name, the first is at %s: a task has one default identity, and Nomad takes one of the two; name the others", s.where, out[first].Pos)
		default:
			p.refuse(b.DefRange(), "%s: a second identity %q, the first is at %s: Nomad renews one of the two; write them as one block", s.where, id.Name, out[first].Pos)
		}
	}
	return out
}

// identity reads one block; false when it can't even be told which it is.
func (p *parser) identity(where string, b *hclsyntax.Block) (Identity, bool) {
	s := p.open(where+": identity", b.Body, identityRules)
	id := Identity{Name: DefaultIdentity, ChangeMode: "noop", Pos: posOf(b.DefRange())}
	name := ""
	if !s.read("name", &name) && s.attrs["name"] != nil {
		return id, false
	}
	if name != "" {
		id.Name = name
	}
	if !identityName.MatchString(id.Name) {
		p.fault(s.attrs["name"].Range(), "%s: name = %q: letters, digits, - and _, at most 128: a file and a variable are named after it", s.where, id.Name)
		return id, false
	}
	s.where = where + ": identity " + `"` + id.Name + `"`
	s.read("env", &id.Env)
	id.Audience = p.audience(s, id.Name)
	p.lifetime(s, &id)
	p.changeMode(s, b, &id)
	id.File = p.tokenFile(s, id.Name)
	return id, true
}

func (p *parser) audience(s section, name string) []string {
	var aud []string
	given := s.read("aud", &aud)
	for _, a := range aud {
		if a == "" {
			p.fault(s.attrs["aud"].Range(), "%s: aud: an audience is empty", s.where)
		}
	}
	if name != DefaultIdentity {
		return aud
	}
	if given && !slices.Equal(aud, []string{nomadAudience}) {
		p.note(s.attrs["aud"].Range(), "%s: aud has no effect: the default identity is for %s alone", s.where, nomadAudience)
	}
	return []string{nomadAudience}
}

func (p *parser) lifetime(s section, id *Identity) {
	s.duration("ttl", &id.TTL)
	switch {
	case id.TTL == 0:
	case id.Name == DefaultIdentity:
		p.fault(s.attrs["ttl"].Range(), "%s: ttl = %q: the default identity lasts as long as the allocation; give this one a name", s.where, id.TTL)
	case id.TTL < quickestRenewal:
		p.note(s.attrs["ttl"].Range(), "%s: ttl = %q: a token is renewed after %s at the earliest, until then the task has one that has ended", s.where, id.TTL, quickestRenewal)
	}
}

func (p *parser) changeMode(s section, b *hclsyntax.Block, id *Identity) {
	mode, signal := "", ""
	if s.read("change_mode", &mode); mode != "" {
		s.oneOf("change_mode", &id.ChangeMode, "noop", "restart", "signal")
	}
	given := s.read("change_signal", &signal)
	id.ChangeSignal = strings.ToUpper(signal)
	switch {
	case mode == "signal" && signal == "" && (given || s.attrs["change_signal"] == nil):
		p.fault(b.DefRange(), `%s: change_mode = "signal" needs a change_signal`, s.where)
	case mode == "signal" && signal != "" && !slices.Contains(clientSignals, id.ChangeSignal):
		p.refuse(s.attrs["change_signal"].Range(), "%s: change_signal = %q is none that a client knows, so that the task fails at the first renewal; want one of %s", s.where, signal, strings.Join(clientSignals, ", "))
	case signal != "" && mode != "signal" && (mode == "" || mode == id.ChangeMode):
		p.fault(s.attrs["change_signal"].Range(), `%s: change_signal = %q goes with change_mode = "signal"`, s.where, signal)
	}
}

// tokenFile is where a token is to be written.
func (p *parser) tokenFile(s section, name string) string {
	wanted, given := false, ""
	s.read("file", &wanted)
	s.read("filepath", &given)
	switch {
	case !wanted && given != "":
		p.fault(s.attrs["filepath"].Range(), "%s: filepath = %q goes with file = true", s.where, given)
		return ""
	case !wanted:
		return ""
	case given == "" && name == DefaultIdentity:
		return "secrets/nomad_token"
	case given == "":
		return "secrets/nomad_" + name + ".jwt"
	}
	file := path.Clean("./" + given) // a client takes it below the task's directory, also when it begins with a slash
	if !slices.Contains(tokenFolders, path.Dir(file)) {
		p.refuse(s.attrs["filepath"].Range(), "%s: filepath = %q is not supported by run: no folders are made for tokens, and a sandbox sees those of its task that are in %s", s.where, given, strings.Join(tokenFolders, ", "))
		return ""
	}
	return file
}
