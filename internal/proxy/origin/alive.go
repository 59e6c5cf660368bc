package origin

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// usable reports whether an idle connection can carry another request: it is
// young enough, and the peer neither closed it nor sent anything unasked.
func usable(c *Conn, now time.Time) bool {
	if now.Sub(c.idleSince) >= idleTimeout {
		return false
	}
	return Quiet(c.TCP)
}

// Quiet looks at a socket without reading from it: true while the peer has
// neither closed it nor sent a byte. What is no socket counts as quiet.
func Quiet(conn any) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = rc.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = err == unix.EAGAIN || err == unix.EINTR
	})
	return err == nil && quiet
}
