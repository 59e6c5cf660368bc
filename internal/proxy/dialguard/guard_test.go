package dialguard

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
)

func mustGuard(t *testing.T, node egress.NodeConfig) *Guard {
	t.Helper()
	g, err := New(node)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func host(t *testing.T, s string) egress.Host {
	t.Helper()
	h, err := egress.ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestG11BlockedRanges walks the table of the ground rules: first and last
// address of every range are refused, their neighbours outside are not.
func TestG11BlockedRanges(t *testing.T) {
	ranges := []string{ // E22 to E34
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		"::/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2", "8000::/1",
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	}
	var prefixes []netip.Prefix
	for _, s := range ranges {
		prefixes = append(prefixes, netip.MustParsePrefix(s))
	}
	inAny := func(a netip.Addr) bool {
		for _, p := range prefixes {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	g := mustGuard(t, egress.NodeConfig{})
	h := host(t, "a.test")
	for _, p := range prefixes {
		first, last := p.Masked().Addr(), lastOf(p)
		for _, a := range []netip.Addr{first, last, first.Prev(), last.Next()} {
			if !a.IsValid() {
				continue
			}
			if blocked := g.Check(h, a) != nil; blocked != inAny(a) {
				t.Errorf("%s (at the edge of %s): blocked %t, want %t", a, p, blocked, inAny(a))
			}
		}
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestE30MappedAndE33ISATAP(t *testing.T) {
	g := mustGuard(t, egress.NodeConfig{})
	h := host(t, "a.test")
	for _, s := range []string{"::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "2600::5efe:7f00:1", "2600::200:5efe:808:808", "::127.0.0.1", "::ffff:0:127.0.0.1"} {
		if g.Check(h, netip.MustParseAddr(s)) == nil {
			t.Errorf("%s is not blocked", s)
		}
	}
	for _, s := range []string{"::ffff:8.8.8.8", "2600::5eff:7f00:1", "2606:4700:4700::1111"} {
		if err := g.Check(h, netip.MustParseAddr(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	if g.Check(h, netip.Addr{}) == nil {
		t.Error("no address at all is not blocked")
	}
}

func TestK19PrivateHosts(t *testing.T) {
	g := mustGuard(t, egress.NodeConfig{
		Own: []string{"10.20.0.1", "93.184.216.0/24", "127.0.0.1"},
		PrivateHosts: map[string]egress.PrivateHost{
			"Registry.Corp.test.": {Prefixes: []string{"10.20.0.0/16", "127.0.0.0/8", "169.254.0.0/16", "0.0.0.0/0", "::/0"}},
			"pinned.corp.test":    {Addresses: []string{"10.9.9.9"}},
		},
	})
	tests := []struct {
		host, addr string
		ok         bool
	}{
		{"registry.corp.test", "10.20.3.4", true},
		{"registry.corp.test", "10.20.0.1", true},    // over the node's own addresses
		{"registry.corp.test", "93.184.216.9", true}, // own, within 0.0.0.0/0
		{"registry.corp.test", "127.0.0.1", false},   // never loopback
		{"registry.corp.test", "169.254.1.1", false}, // never link-local
		{"registry.corp.test", "169.254.169.254", false},
		{"registry.corp.test", "100.100.100.200", false}, // never metadata
		{"registry.corp.test", "fd00:ec2::254", false},
		{"registry.corp.test", "fd00::1", true},
		{"registry.corp.test", "::1", false},
		{"registry.corp.test", "224.0.0.1", false},
		{"other.corp.test", "10.20.3.4", false}, // the pair opens, not the prefix
		{"other.corp.test", "93.184.216.9", false},
		{"other.corp.test", "93.184.217.9", true},
		{"pinned.corp.test", "10.9.9.9", true},
		{"pinned.corp.test", "10.9.9.8", false},
	}
	for _, tt := range tests {
		err := g.Check(host(t, tt.host), netip.MustParseAddr(tt.addr))
		if (err == nil) != tt.ok {
			t.Errorf("Check(%s, %s) = %v, want ok %t", tt.host, tt.addr, err, tt.ok)
		}
	}
	if got := g.Pinned(host(t, "pinned.corp.test")); len(got) != 1 || got[0].String() != "10.9.9.9" {
		t.Errorf("Pinned = %v", got)
	}
	var b *BlockedError
	if err := g.Check(host(t, "other.corp.test"), netip.MustParseAddr("10.20.3.4")); !errors.As(err, &b) || !b.Openable {
		t.Errorf("the error does not say that an operator may open it: %v", err)
	}
	if err := g.Check(host(t, "other.corp.test"), netip.MustParseAddr("169.254.169.254")); !errors.As(err, &b) || b.Openable {
		t.Errorf("the error says that metadata could be opened: %v", err)
	}
}

func TestE35MixedAnswersBlockAll(t *testing.T) {
	g := mustGuard(t, egress.NodeConfig{})
	mixed := []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("10.0.0.1")}
	if g.CheckAll(host(t, "a.test"), mixed) == nil {
		t.Error("one blocked answer does not block the name")
	}
}

func TestE36ControlIsASecondLock(t *testing.T) {
	control := mustGuard(t, egress.NodeConfig{}).Control(host(t, "a.test"))
	for _, addr := range []string{"169.254.169.254:80", "[::1]:443", "localhost:80"} {
		if control(t.Context(), "tcp", addr, nil) == nil {
			t.Errorf("Control lets %s through", addr)
		}
	}
	if err := control(t.Context(), "tcp", "93.184.216.34:443", nil); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{ControlContext: control}
	if c, err := d.DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("a dialler under Control connects to loopback")
	}
}

func TestE32NAT64Prefix(t *testing.T) {
	g := mustGuard(t, egress.NodeConfig{NAT64Prefix: "2600:1::/96"})
	h := host(t, "a.test")
	if err := g.Check(h, netip.MustParseAddr("2600:1::808:808")); err != nil {
		t.Errorf("a public address behind the named prefix: %v", err)
	}
	for _, s := range []string{"2600:1::a00:1", "2600:1::a9fe:a9fe", "64:ff9b::808:808"} {
		if g.Check(h, netip.MustParseAddr(s)) == nil {
			t.Errorf("%s is not blocked", s)
		}
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := New(egress.NodeConfig{
		Own: []string{"nonsense"}, NAT64Prefix: "2600::/64",
		PrivateHosts: map[string]egress.PrivateHost{"a..b": {}, "c.test": {Prefixes: []string{"10/8"}}, "d.test": {Addresses: []string{"fe80::1%eth0"}}},
	})
	if err == nil {
		t.Fatal("no fault found")
	}
	var n int
	if u, ok := err.(interface{ Unwrap() []error }); ok {
		n = len(u.Unwrap())
	}
	if n != 5 {
		t.Errorf("%d faults named, want 5: %v", n, err)
	}
}

// S2: what the node gains is refused from then on, what it gives up is not, and
// a list with a fault changes nothing.
func TestK19OwnAddressesChange(t *testing.T) {
	g := mustGuard(t, egress.NodeConfig{Own: []string{"44.44.44.1"}})
	h := host(t, "a.test")
	blocked := func(s string) bool { return g.Check(h, netip.MustParseAddr(s)) != nil }
	if !blocked("44.44.44.1") || blocked("55.55.55.1") {
		t.Error("the first list")
	}
	if err := g.SetOwn([]string{"55.55.55.1", "2600::1"}); err != nil || blocked("44.44.44.1") || !blocked("55.55.55.1") || !blocked("2600::1") || blocked("55.55.55.2") {
		t.Errorf("the second list: %v", err)
	}
	if err := g.SetOwn([]string{"66.66.66.1", "nonsense"}); err == nil || !blocked("55.55.55.1") {
		t.Errorf("a list with a fault: %v", err)
	}
}

func TestBlockedErrorReadsWell(t *testing.T) {
	g := mustGuard(t, egress.NodeConfig{Own: []string{"44.44.44.1"}})
	for addr, want := range map[string]string{
		"44.44.44.1": "is an address of this node", "10.0.0.1": "is a private address", "0.0.0.0": "is an unspecified address",
		"fd00::1": "is a unique local address", "64:ff9b::1": "is an IPv4 translation address", "4000::1": "is an address outside the global unicast range",
	} {
		if err := g.Check(host(t, "a.test"), netip.MustParseAddr(addr)); err == nil || err.Error() != addr+" "+want {
			t.Errorf("%v, want %s %s", err, addr, want)
		}
	}
}
