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
	pool := netip.MustParsePrefix(egressPool)
	gateway := pool.Masked().Addr().Next()
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
	l, err := lc.Listen(t.Context(), "tcp4", netip.AddrPortFrom(gateway, 8080).String())
	if err != nil {
		t.Fatal(err)
	}
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
	return netip.AddrPortFrom(gateway, 8080)
}
