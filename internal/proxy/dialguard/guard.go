package dialguard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Guard judges addresses. Nothing of it changes after New but the node's own.
type Guard struct {
	own   atomic.Pointer[[]netip.Prefix]
	hosts map[egress.Host]Exception
	nat64 netip.Prefix
}

// Exception opens a private upstream for one host name.
type Exception struct {
	prefixes []netip.Prefix
	// Pinned are the addresses of a name that is not resolved at all.
	Pinned []netip.Addr
}

// BlockedError says that an address is not dialled and why.
type BlockedError struct {
	Addr netip.Addr
	What string // "a private address", "an address of this node", ...
	// Openable: an operator may open it as a private upstream.
	Openable bool
}

func (e *BlockedError) Error() string { return fmt.Sprintf("%s is %s", e.Addr, e.What) }

// New reads the node's own addresses and the operator's exceptions. Every
// fault is named; a guard with a fault is not built.
func New(node egress.NodeConfig) (*Guard, error) {
	g := &Guard{hosts: map[egress.Host]Exception{}}
	var errs []error
	if err := g.SetOwn(node.Own); err != nil {
		errs = append(errs, err)
	}
	for name, ph := range node.PrivateHosts {
		h, err := egress.ParseHost(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("private host: %w", err))
			continue
		}
		x, err := parseException(ph)
		if err != nil {
			errs = append(errs, fmt.Errorf("private host %q: %w", name, err))
			continue
		}
		g.hosts[h] = x
	}
	if node.NAT64Prefix != "" {
		p, err := netip.ParsePrefix(node.NAT64Prefix)
		if err != nil || !p.Addr().Is6() || p.Bits() != 96 {
			errs = append(errs, fmt.Errorf("nat64 prefix %q: want an IPv6 prefix of 96 bits", node.NAT64Prefix))
		}
		g.nat64 = p
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return g, nil
}

// SetOwn replaces the addresses and prefixes that the node itself holds, for
// every check from now on. With a fault in the list the one before it stays.
func (g *Guard) SetOwn(list []string) error {
	var own []netip.Prefix
	var errs []error
	for _, s := range list {
		p, err := parsePrefix(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("own address %q: %w", s, err))
			continue
		}
		own = append(own, p)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	g.own.Store(&own)
	return nil
}

func parseException(ph egress.PrivateHost) (Exception, error) {
	var x Exception
	for _, s := range ph.Prefixes {
		p, err := parsePrefix(s)
		if err != nil {
			return Exception{}, fmt.Errorf("prefix %q: %w", s, err)
		}
		x.prefixes = append(x.prefixes, p)
	}
	for _, s := range ph.Addresses {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return Exception{}, fmt.Errorf("address %q: want an IP address without a zone", s)
		}
		a = a.Unmap()
		x.Pinned = append(x.Pinned, a)
		x.prefixes = append(x.prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	return x, nil
}

// parsePrefix reads "10.0.0.0/8" or a single address.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, errors.New("want an IP address or a prefix in CIDR notation")
	}
	return p.Masked(), nil
}

// Pinned returns the addresses that the operator pinned for a host. They are
// vetted like resolved ones.
func (g *Guard) Pinned(h egress.Host) []netip.Addr { return g.hosts[h].Pinned }

// Excepted reports whether the operator opened a private upstream for h.
func (g *Guard) Excepted(h egress.Host) bool { _, ok := g.hosts[h]; return ok }

// Check returns a *BlockedError when a request for h may not reach a.
func (g *Guard) Check(h egress.Host, a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return &BlockedError{Addr: a, What: "no address"}
	}
	c, what := classify(g.embedded(a))
	if c == public && g.isOwn(a) {
		c, what = private, "an address of this node"
	}
	switch {
	case c == public:
		return nil
	case c == private && g.excepted(h, a):
		return nil
	}
	return &BlockedError{Addr: a, What: what, Openable: c == private}
}

// CheckAll vets a set of addresses as one: one that is blocked blocks them all.
func (g *Guard) CheckAll(h egress.Host, addrs []netip.Addr) error {
	for _, a := range addrs {
		if err := g.Check(h, a); err != nil {
			return err
		}
	}
	return nil
}

// Control is the second lock, for net.Dialer.ControlContext: it judges the
// address that the kernel is about to connect to.
func (g *Guard) Control(h egress.Host) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("dial %q: not an address and a port: %w", address, err)
		}
		return g.Check(h, ap.Addr())
	}
}

func (g *Guard) isOwn(a netip.Addr) bool {
	own := g.own.Load()
	return own != nil && slices.ContainsFunc(*own, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (g *Guard) excepted(h egress.Host, a netip.Addr) bool {
	for _, p := range g.hosts[h].prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// embedded returns the IPv4 address inside the operator's own NAT64 prefix, or
// the address itself.
func (g *Guard) embedded(a netip.Addr) netip.Addr {
	if !g.nat64.IsValid() || !g.nat64.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:16]))
}
