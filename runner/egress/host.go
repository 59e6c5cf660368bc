package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Host is a host name or an address in the one form in which it is compared,
// resolved, dialled, logged and shown: a name is lower-case ASCII without a
// trailing dot, an address is an address and no text. The zero Host is no host.
// Hosts are comparable with ==.
type Host struct {
	name string
	addr netip.Addr
}

// maxNameLen and maxLabelLen are the limits of the domain name system.
const (
	maxNameLen  = 253
	maxLabelLen = 63
)

// ParseHost reads a host as it stands on the wire, without its port: a name, a
// canonical IPv4 address, or an IPv6 address in brackets. Case and trailing
// dots are folded away. Everything that another parser could take for
// something else is refused: other spellings of an address, zones, userinfo,
// percent signs, bytes outside ASCII. Punycode labels stay opaque.
func ParseHost(s string) (Host, error) {
	if strings.HasPrefix(s, "[") {
		return parseBracketed(s)
	}
	name := lowerASCII(strings.TrimRight(s, "."))
	if err := checkName(name); err != nil {
		return Host{}, fmt.Errorf("host %q: %w", shorten(s), err)
	}
	if !numericLabel(name[strings.LastIndexByte(name, '.')+1:]) {
		return Host{name: name}, nil
	}
	a, err := netip.ParseAddr(name)
	if err != nil {
		return Host{}, fmt.Errorf("host %q: a name whose last label is a number must be a canonical IPv4 address", shorten(s))
	}
	return Host{addr: a}, nil
}

// HostOfAddr returns the host that an address is; a v4-mapped address is the
// IPv4 address in it.
func HostOfAddr(a netip.Addr) Host { return Host{addr: a.Unmap().WithZone("")} }

func parseBracketed(s string) (Host, error) {
	inner, ok := strings.CutSuffix(s[1:], "]")
	if !ok {
		return Host{}, fmt.Errorf("host %q: the closing bracket is missing", shorten(s))
	}
	a, err := netip.ParseAddr(inner)
	if err != nil || a.Is4() || a.Zone() != "" || strings.Contains(inner, "%") {
		return Host{}, fmt.Errorf("host %q: brackets hold an IPv6 address without a zone and nothing else", shorten(s))
	}
	return Host{addr: a.Unmap()}, nil
}

func checkName(name string) error {
	if name == "" {
		return errors.New("it is empty")
	}
	if len(name) > maxNameLen {
		return fmt.Errorf("it is longer than %d bytes", maxNameLen)
	}
	label := 0
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '.':
			if label == 0 {
				return errors.New("it has an empty label")
			}
			label = 0
			continue
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			label++
		default:
			return fmt.Errorf("byte %q is not allowed in a host", c)
		}
		if label > maxLabelLen {
			return fmt.Errorf("a label is longer than %d bytes", maxLabelLen)
		}
	}
	return nil
}

// numericLabel reports whether an address parser in the style of inet_aton
// could take the label for a number.
func numericLabel(l string) bool {
	if hex, ok := strings.CutPrefix(l, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(l, "0123456789") == ""
}

// lowerASCII folds A-Z only, so that no other letter can become one of them.
func lowerASCII(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// shorten keeps error texts and records readable whatever was sent.
func shorten(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// IsZero reports whether h is no host at all.
func (h Host) IsZero() bool { return h == Host{} }

// Addr returns the address and true when h is one.
func (h Host) Addr() (netip.Addr, bool) { return h.addr, h.addr.IsValid() }

// Name returns the host name; it is empty for an address.
func (h Host) Name() string { return h.name }

// String returns h as it stands in a URL: an IPv6 address is in brackets.
func (h Host) String() string {
	if !h.addr.IsValid() {
		return h.name
	}
	if h.addr.Is6() {
		return "[" + h.addr.String() + "]"
	}
	return h.addr.String()
}

// IsLocalhost reports whether h is "localhost" or a name below it.
func (h Host) IsLocalhost() bool {
	return h.name == "localhost" || strings.HasSuffix(h.name, ".localhost")
}

// Registrable returns the domain that a name was registered under, such as
// "example.co.uk" for "a.b.example.co.uk". For addresses and for names that are
// no more than a public suffix it is the host itself.
func (h Host) Registrable() string {
	if d, err := publicsuffix.EffectiveTLDPlusOne(h.name); err == nil {
		return d
	}
	return h.String()
}

// ParsePort reads a port: decimal, 1 to 65535, no sign, no leading zero.
func ParsePort(s string) (uint16, error) {
	bad := func() (uint16, error) {
		return 0, fmt.Errorf("port %q: want a decimal number from 1 to 65535 without sign or leading zero", shorten(s))
	}
	if s == "" || len(s) > 5 || s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return bad()
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return bad()
	}
	return uint16(n), nil
}

// Authority is a host and a port: what a request is for.
type Authority struct {
	Host Host
	Port uint16
}

// String returns "host:port", with brackets round an IPv6 address.
func (a Authority) String() string {
	return a.Host.String() + ":" + strconv.Itoa(int(a.Port))
}

// HostHeader returns the canonical Host header: the port is left out when it
// is the scheme's default.
func (a Authority) HostHeader(defaultPort uint16) string {
	if a.Port == defaultPort {
		return a.Host.String()
	}
	return a.String()
}

// SplitAuthority cuts "host", "host:port" or "[v6]:port" into its two parts
// without judging them. hasPort tells an empty port from none.
func SplitAuthority(s string) (host, port string, hasPort bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || i < strings.LastIndexByte(s, ']') {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// ParseAuthority reads "host" or "host:port". A missing or empty port is
// defaultPort; with defaultPort 0 a port is required.
func ParseAuthority(s string, defaultPort uint16) (Authority, error) {
	hs, ps, _ := SplitAuthority(s)
	h, err := ParseHost(hs)
	if err != nil {
		return Authority{}, err
	}
	if ps == "" && defaultPort != 0 {
		return Authority{Host: h, Port: defaultPort}, nil
	}
	p, err := ParsePort(ps)
	if err != nil {
		return Authority{}, err
	}
	return Authority{Host: h, Port: p}, nil
}
