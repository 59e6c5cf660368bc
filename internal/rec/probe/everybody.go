package probe

import (
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// toEverybody: no single host has this address.
func toEverybody(a netip.Addr) bool {
	return a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// leaveByInterface has what goes to everybody leave by the first interface that
// is no loopback. A sandbox without a route for it would find none else, while
// any process may choose an interface. Where that is refused the routes count.
func leaveByInterface(_, _ string, c syscall.RawConn) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return c.Control(func(fd uintptr) { unix.BindToDevice(int(fd), i.Name) })
		}
	}
	return nil
}
