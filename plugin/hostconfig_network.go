package plugin

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

// Pools are the ranges that networks are cut from, defaults filled in.
func (h HostConfig) Pools() (subnets, egress netip.Prefix) {
	subnets, egress = h.SubnetPool, h.EgressPool
	if !subnets.IsValid() {
		subnets = defaultSubnetPool
	}
	if !egress.IsValid() {
		egress = defaultEgressPool
	}
	return subnets, egress
}

func pools(f *faults, c Config) (subnets, egressPool netip.Prefix) {
	subnets = pool(f, "subnet_pool", c.SubnetPool, 29)
	egressPool = pool(f, "egress_subnet_pool", c.EgressSubnetPool, 22)
	a, b := HostConfig{SubnetPool: subnets, EgressPool: egressPool}.Pools()
	if a.Overlaps(b) {
		f.add("egress_subnet_pool", b.String(), "it overlaps subnet_pool, "+a.String(), "give the two separate ranges")
	}
	return subnets, egressPool
}

// pool reads one range. The smallest that will do is one network: a /29 for a
// run, a /22 for the sidecars of all.
func pool(f *faults, name, text string, smallest int) netip.Prefix {
	if text == "" {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil, !p.Addr().Is4(), p.Masked() != p, p.Bits() > smallest, p.Bits() < 8:
		f.add(name, text, fmt.Sprintf("want an IPv4 range from /8 to /%d in CIDR notation, by its first address", smallest), `for instance "10.213.0.0/16"`)
		return netip.Prefix{}
	}
	return p
}

// neverOpen are ranges that no operator option opens: a name that led there
// would hand a sandbox the node itself, or its cloud identity.
var neverOpen = []struct {
	name  string
	block netip.Prefix
}{
	{"loopback", netip.MustParsePrefix("127.0.0.0/8")},
	{"loopback", netip.MustParsePrefix("::1/128")},
	{"link-local and metadata", netip.MustParsePrefix("169.254.0.0/16")},
	{"link-local", netip.MustParsePrefix("fe80::/10")},
	{"metadata", netip.MustParsePrefix("168.63.129.16/32")},
	{"metadata", netip.MustParsePrefix("100.100.100.200/32")},
	{"metadata", netip.MustParsePrefix("192.0.0.192/32")},
	{"metadata", netip.MustParsePrefix("fd00:ec2::254/128")},
	{"multicast", netip.MustParsePrefix("224.0.0.0/4")},
	{"multicast", netip.MustParsePrefix("ff00::/8")},
	{"unspecified", netip.MustParsePrefix("0.0.0.0/8")},
	{"unspecified", netip.MustParsePrefix("::/128")},
}

// privateHosts reads { name = [range or address, ...] }.
func privateHosts(f *faults, v any) map[string]egress.PrivateHost {
	const field = "private_hosts"
	raw, err := anyMap(v)
	if err != nil {
		f.add(field, v, err.Error(), `write private_hosts { "host.example" = ["10.1.2.0/24"] }`)
		return nil
	}
	out := make(map[string]egress.PrivateHost, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		host, err := egress.ParseHost(name)
		if err != nil || host.Name() == "" || host.IsLocalhost() {
			f.add(field, name, "want the exact name of a host", "wildcards, addresses and localhost cannot be opened")
			continue
		}
		list, err := stringList(raw[name])
		if err != nil || len(list) == 0 {
			f.add(field, name, "want a list of ranges or addresses", `for instance ["10.1.2.0/24"]`)
			continue
		}
		var ph egress.PrivateHost
		for _, text := range list {
			if err := addPrivate(&ph, text); err != nil {
				f.add(field+"."+name, text, err.Error(), "")
			}
		}
		out[host.Name()] = ph
	}
	return out
}

func addPrivate(ph *egress.PrivateHost, text string) error {
	p, err := netip.ParsePrefix(text)
	if a, aerr := netip.ParseAddr(text); aerr == nil && a.Zone() == "" {
		p, err = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
		ph.Addresses = append(ph.Addresses, a.Unmap().String())
	} else if err == nil {
		ph.Prefixes = append(ph.Prefixes, p.Masked().String())
	}
	if err != nil {
		return errors.New("want a range in CIDR notation or an address")
	}
	for _, closed := range neverOpen {
		if closed.block.Overlaps(p) {
			return fmt.Errorf("it reaches into %s (%s), which is never opened", closed.name, closed.block)
		}
	}
	return nil
}
