package probe

import (
	"fmt"
	"net/netip"
	"strings"
)

// target is one place to try, as written on the command line:
//
//	tcp:ADDR:PORT        connect
//	udp:ADDR:PORT        send a datagram and wait for an answer
//	frag:ADDR:PORT       the same with one that travels in fragments
//	dns:SERVER:NAME      ask SERVER (ADDR or ADDR:PORT) for NAME over UDP
//	tcp6ll:[ADDR]:PORT   connect to a link-local IPv6 address on each interface
//	unix:PATH            connect to a unix socket and wait for a word
//
// IPv6 addresses stand in brackets. Addresses only: a probe that first asked a
// resolver would test the resolver.
type target struct {
	text string
	kind string
	addr netip.AddrPort
	name string // dns
	path string // unix
}

func parseTarget(s string) (target, error) {
	t := target{text: s}
	var rest string
	t.kind, rest, _ = strings.Cut(s, ":")
	var err error
	switch t.kind {
	case "tcp", "udp", "frag":
		t.addr, err = netip.ParseAddrPort(rest)
	case "tcp6ll":
		t.addr, err = netip.ParseAddrPort(rest)
		if err == nil && (!t.addr.Addr().Is6() || !t.addr.Addr().IsLinkLocalUnicast() || t.addr.Addr().Zone() != "") {
			err = fmt.Errorf("a link-local IPv6 address without a zone is needed")
		}
	case "dns":
		i := strings.LastIndexByte(rest, ':')
		if i < 0 || rest[i+1:] == "" {
			return t, fmt.Errorf("target %q: dns:SERVER:NAME is needed", s)
		}
		t.name = rest[i+1:]
		t.addr, err = parseServer(rest[:i])
	case "unix":
		if t.path = rest; !strings.HasPrefix(rest, "/") {
			err = fmt.Errorf("an absolute path is needed")
		}
	default:
		return t, fmt.Errorf("target %q: unknown kind; the kinds are tcp, udp, frag, dns, tcp6ll and unix", s)
	}
	if err != nil {
		return t, fmt.Errorf("target %q: %w", s, err)
	}
	return t, nil
}

// parseServer takes an address with or without a port; DNS's own is 53.
func parseServer(s string) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap, nil
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return netip.AddrPortFrom(a, 53), err
}

func parseTargets(args []string) ([]target, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("a target is needed")
	}
	targets := make([]target, len(args))
	for i, s := range args {
		var err error
		if targets[i], err = parseTarget(s); err != nil {
			return nil, err
		}
	}
	return targets, nil
}
