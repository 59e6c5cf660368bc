package testenv

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
)

// Loopback is an address at which nothing listens, for what has to be told where
// it is to listen. The address is the test's own: a port of 127.0.0.1 that is
// free now may be any connection's in the next moment.
func Loopback(t testing.TB) netip.AddrPort {
	t.Helper()
	own := netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(64)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
	l, err := net.Listen("tcp4", netip.AddrPortFrom(own, 0).String())
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}
