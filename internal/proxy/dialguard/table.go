// Package dialguard says which addresses the egress proxy never dials: special
// ranges of the internet's registries, cloud metadata, and every address that
// the node itself holds. The operator's private upstreams are the only
// exception, by name and prefix, and never for metadata, loopback or
// link-local addresses.
package dialguard

import "net/netip"

// class tells what an operator may open.
type class int

const (
	public class = iota
	// private ranges can be opened by the operator for named hosts.
	private
	// never ranges cannot be opened by anybody.
	never
)

type row struct {
	prefix netip.Prefix
	class  class
	what   string
}

func rows(c class, what string, prefixes ...string) []row {
	out := make([]row, len(prefixes))
	for i, p := range prefixes {
		out[i] = row{prefix: netip.MustParsePrefix(p), class: c, what: what}
	}
	return out
}

func join(groups ...[]row) []row {
	var all []row
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// table4 and table6 are searched front to back: the first row wins, so single
// addresses stand before the ranges around them.
var table4 = join(
	rows(never, "a cloud metadata address", "169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"),
	rows(never, "an unspecified address", "0.0.0.0/8"),
	rows(never, "a loopback address", "127.0.0.0/8"),
	rows(never, "a link-local address", "169.254.0.0/16"),
	rows(never, "a multicast address", "224.0.0.0/4"),
	rows(never, "a reserved address", "240.0.0.0/4"),
	rows(private, "a private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
	rows(private, "a shared carrier address", "100.64.0.0/10"),
	rows(private, "a protocol assignment address", "192.0.0.0/24", "192.88.99.0/24"),
	rows(private, "a documentation address", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
	rows(private, "a benchmarking address", "198.18.0.0/15"),
)

var table6 = join(
	rows(never, "a cloud metadata address", "fd00:ec2::254/128", "fd20:ce::254/128"),
	rows(never, "an unspecified address", "::/128"),
	rows(never, "a loopback address", "::1/128"),
	rows(never, "a link-local address", "fe80::/10"),
	rows(never, "a multicast address", "ff00::/8"),
	rows(never, "an IPv4 translation address", "64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "2002::/16"),
	rows(private, "a unique local address", "fc00::/7"),
	rows(private, "a site-local address", "fec0::/10"),
	rows(private, "a protocol assignment address", "2001::/23"),
	rows(private, "a documentation address", "2001:db8::/32", "3fff::/20"),
)

var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// classify judges one unmapped address by the static tables.
func classify(a netip.Addr) (class, string) {
	table := table4
	if a.Is6() {
		if isISATAP(a) {
			return never, "an ISATAP address"
		}
		table = table6
	}
	for _, r := range table {
		if r.prefix.Contains(a) {
			return r.class, r.what
		}
	}
	if a.Is6() && !globalUnicast6.Contains(a) {
		return never, "an address outside the global unicast range"
	}
	return public, ""
}

// isISATAP reports an interface id that embeds an IPv4 address.
func isISATAP(a netip.Addr) bool {
	b := a.As16()
	return (b[8] == 0x00 || b[8] == 0x02) && b[9] == 0x00 && b[10] == 0x5e && b[11] == 0xfe
}
