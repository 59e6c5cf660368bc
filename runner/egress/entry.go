package egress

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Entry is one line of a host list:
//
//	[ "*." ] host [ ":" port ] [ "+tcp" ]
//
// A bare host covers exactly that host on every port; a wildcard covers any
// depth below its host and not the host itself; "+tcp" admits a raw tunnel.
type Entry struct {
	Wildcard bool
	Host     Host
	Port     uint16 // 0 means every port
	TCP      bool   // raw tunnel: no look at the first bytes
	text     string
}

// String returns the entry as it was written.
func (e Entry) String() string { return e.text }

// ParseAllow reads an entry of an allow list. A wildcard over one label or over
// a public suffix is refused: it would open what belongs to strangers.
func ParseAllow(s string) (Entry, error) {
	e, err := ParseCeiling(s)
	if err != nil || !e.Wildcard {
		return e, err
	}
	if !strings.Contains(e.Host.name, ".") {
		return Entry{}, fmt.Errorf("allow entry %q: a wildcard over a single label is too wide; name the domain below it", shorten(s))
	}
	if suffix, _ := publicsuffix.PublicSuffix(e.Host.name); suffix == e.Host.name {
		return Entry{}, fmt.Errorf("allow entry %q: %s is a public suffix that strangers share; name the domain below it", shorten(s), suffix)
	}
	return e, nil
}

// ParseDeny reads an entry of a deny list. It may be as wide as it likes, but
// "+tcp" means nothing there.
func ParseDeny(s string) (Entry, error) {
	e, err := parseEntry(s)
	if err != nil {
		return Entry{}, fmt.Errorf("deny entry %q: %w", shorten(s), err)
	}
	if e.TCP {
		return Entry{}, fmt.Errorf("deny entry %q: +tcp has no meaning in a deny list; remove it", shorten(s))
	}
	return e, nil
}

// ParseCeiling reads an entry of an operator's ceiling. A ceiling grants
// nothing, so it may be as wide as it likes; "+tcp" in it lets authors ask for
// raw tunnels.
func ParseCeiling(s string) (Entry, error) {
	e, err := parseEntry(s)
	if err != nil {
		return Entry{}, fmt.Errorf("entry %q: %w", shorten(s), err)
	}
	return e, nil
}

// ValidateAllow reports why an allow entry would be inert, or nil.
func ValidateAllow(s string) error { _, err := ParseAllow(s); return err }

// ValidateDeny reports why a deny entry is invalid, or nil.
func ValidateDeny(s string) error { _, err := ParseDeny(s); return err }

func parseEntry(s string) (Entry, error) {
	e := Entry{text: strings.Trim(s, " \t")}
	rest := lowerASCII(e.text)
	if rest == "" {
		return Entry{}, errors.New("it is empty")
	}
	if i := strings.LastIndexByte(rest, '+'); i >= 0 {
		if rest[i+1:] != "tcp" {
			return Entry{}, fmt.Errorf("unknown flag %q; the only one is +tcp", rest[i:])
		}
		e.TCP, rest = true, rest[:i]
	}
	if suffix, ok := strings.CutPrefix(rest, "*."); ok {
		e.Wildcard, rest = true, suffix
	}
	host, port, err := splitEntry(rest)
	if err != nil {
		return Entry{}, err
	}
	if e.Host, err = parseEntryHost(host); err != nil {
		return Entry{}, err
	}
	if port != "" {
		if e.Port, err = ParsePort(port); err != nil {
			return Entry{}, err
		}
	}
	if _, isAddr := e.Host.Addr(); isAddr && e.Wildcard {
		return Entry{}, errors.New("a wildcard over an address matches nothing; list the address itself")
	}
	if e.TCP && e.Port == 0 {
		return Entry{}, errors.New(`+tcp needs a port, as in "db.example.com:5432+tcp"`)
	}
	return e, nil
}

// splitEntry cuts the port off. An empty port is an error here, so that ""
// can mean that there is none.
func splitEntry(s string) (host, port string, err error) {
	switch {
	case strings.ContainsAny(s, "/\\@?#"):
		return "", "", errors.New("it holds a host and at most a port, no scheme, user, path or prefix length")
	case strings.ContainsRune(s, '*'):
		return "", "", errors.New(`the only place for a star is a leading "*."`)
	case strings.HasPrefix(s, "["):
		host, port, _ = strings.Cut(s, "]")
		host += "]"
		if port == "" {
			return host, "", nil
		}
		if port[0] != ':' {
			return "", "", errors.New("only a port may follow the closing bracket")
		}
		port = port[1:]
	case strings.Count(s, ":") > 1:
		return "[" + s + "]", "", nil // a bare IPv6 address
	default:
		var found bool
		if host, port, found = strings.Cut(s, ":"); !found {
			return host, "", nil
		}
	}
	if port == "" {
		return "", "", errors.New("the port is empty; leave the colon out to mean every port")
	}
	return host, port, nil
}

// parseEntryHost reads the host of an entry. A name with letters outside ASCII
// is turned into punycode here, once; on the wire only punycode travels.
func parseEntryHost(s string) (Host, error) {
	if isASCII(s) {
		return ParseHost(s)
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimRight(s, "."))
	if err != nil {
		return Host{}, fmt.Errorf("host %q is no valid international name: %w", shorten(s), err)
	}
	if !strings.HasPrefix(ascii, "xn--") && !strings.Contains(ascii, ".xn--") {
		return Host{}, fmt.Errorf("host %q folds to the plain name %q; write that", shorten(s), ascii)
	}
	return ParseHost(ascii)
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Match reports whether the entry covers host and port.
func (e Entry) Match(h Host, port uint16) bool {
	if e.Port != 0 && e.Port != port {
		return false
	}
	if e.Wildcard {
		return below(h.name, e.Host.name)
	}
	return h == e.Host
}

// Covers reports whether everything that o can match is matched by e, and
// whether e admits raw tunnels if o does.
func (e Entry) Covers(o Entry) bool {
	if e.Port != 0 && e.Port != o.Port || o.TCP && !e.TCP {
		return false
	}
	if !e.Wildcard {
		return !o.Wildcard && e.Host == o.Host
	}
	return below(o.Host.name, e.Host.name) || o.Wildcard && o.Host == e.Host
}

// below reports whether name is a proper subdomain of parent.
func below(name, parent string) bool {
	n := len(name) - len(parent)
	return n > 1 && name[n-1] == '.' && name[n:] == parent
}
