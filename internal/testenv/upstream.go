package testenv

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Upstream is a plain HTTP server that stands in for a corporate artifact
// host: it listens on the gateway address of an egress pool, which need not
// exist yet. It answers every path with "hello from PATH" and returns its
// address and port.
func Upstream(t testing.TB, egressPool string) netip.AddrPort {
	t.Helper()
	l := Listen(t, egressPool, 8080)
	s := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "hello from %s\n", strings.TrimPrefix(r.URL.Path, "/"))
		}),
	}
	go s.Serve(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Shutdown(ctx)
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// Listen listens on a port of the gateway address of an egress pool, which need
// not exist yet: sidecars reach it there as a host of the node's surroundings.
func Listen(t testing.TB, egressPool string, port uint16) net.Listener {
	t.Helper()
	gateway := netip.MustParsePrefix(egressPool).Masked().Addr().Next()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var serr error
		err := c.Control(func(fd uintptr) {
			serr = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
		})
		if err != nil {
			return err
		}
		return serr
	}}
	l, err := lc.Listen(t.Context(), "tcp4", netip.AddrPortFrom(gateway, port).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
