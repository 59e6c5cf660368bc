package netpool

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// HostAddresses lists every address of every interface of the host, the
// engine's bridges included, whether up or down. It is what a sidecar must
// refuse to dial.
func HostAddresses() ([]netip.Addr, error) {
	prefixes, err := interfacePrefixes()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, p := range prefixes {
		out = append(out, p.Addr())
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// HostRanges lists the IPv4 prefixes that the host holds or routes anywhere
// but through its default route.
func HostRanges() ([]netip.Prefix, error) {
	prefixes, err := interfacePrefixes()
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().Is4() {
			out = append(out, p.Masked())
		}
	}
	f, err := os.Open("/proc/net/route")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	routes, err := parseRoutes(f)
	return append(out, routes...), err
}

func interfacePrefixes() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of the host: %w", err)
	}
	var out []netip.Prefix
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		addr, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		ones, _ := n.Mask.Size()
		out = append(out, netip.PrefixFrom(addr.Unmap(), ones))
	}
	return out, nil
}

// parseRoutes reads the format of /proc/net/route: a heading, then one route a
// line with destination and mask as eight hex digits in host byte order. The
// default route is left out.
func parseRoutes(r io.Reader) ([]netip.Prefix, error) {
	var out []netip.Prefix
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 8 || f[0] == "Iface" {
			continue
		}
		dst, err1 := hexAddr(f[1])
		mask, err2 := hexAddr(f[7])
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("route %q is not in the known format", s.Text())
		}
		m := mask.As4()
		if n := bits.OnesCount32(binary.BigEndian.Uint32(m[:])); n > 0 {
			out = append(out, netip.PrefixFrom(dst, n).Masked())
		}
	}
	return out, s.Err()
}

func hexAddr(s string) (netip.Addr, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, fmt.Errorf("%q is not an address", s)
	}
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], binary.NativeEndian.Uint32(b))
	return netip.AddrFrom4(a), nil
}
