// Package origin holds the proxy's side towards the outside: it connects to
// vetted addresses and keeps idle connections for the next request.
package origin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// DialFunc connects to one address that was vetted.
type DialFunc func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)

// DialTimeout bounds all attempts for one request together.
const DialTimeout = 15 * time.Second

// stagger is how long one address may stay silent before the next is tried beside it.
const stagger = 300 * time.Millisecond

// DialAny connects to the first of the vetted addresses that answers. Each is
// tried in turn, without waiting for one that neither answers nor refuses.
func DialAny(ctx context.Context, dial DialFunc, addrs []netip.Addr, port uint16) (net.Conn, netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	if len(addrs) == 1 {
		ap := netip.AddrPortFrom(addrs[0], port)
		c, err := dial(ctx, ap)
		return c, ap, err
	}
	return dialRace(ctx, dial, addrs, port)
}

type attempt struct {
	conn net.Conn
	addr netip.AddrPort
	err  error
}

func dialRace(ctx context.Context, dial DialFunc, addrs []netip.Addr, port uint16) (net.Conn, netip.AddrPort, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan attempt, len(addrs)) // room for every loser
	timer := time.NewTimer(0)
	defer timer.Stop()
	var errs []error
	for next, running := 0, 0; next < len(addrs) || running > 0; {
		select {
		case <-timer.C:
			if next < len(addrs) {
				go try(ctx, dial, netip.AddrPortFrom(addrs[next], port), results)
				next, running = next+1, running+1
				timer.Reset(stagger)
			}
		case a := <-results:
			running--
			if a.err == nil {
				go closeLosers(results, running)
				return a.conn, a.addr, nil
			}
			errs = append(errs, a.err)
			timer.Reset(0)
		}
	}
	return nil, netip.AddrPort{}, errors.Join(errs...)
}

func try(ctx context.Context, dial DialFunc, ap netip.AddrPort, results chan<- attempt) {
	c, err := dial(ctx, ap)
	if err != nil {
		err = fmt.Errorf("%s: %w", ap, err)
	}
	results <- attempt{conn: c, addr: ap, err: err}
}

// closeLosers closes connections that came up after another one had won.
func closeLosers(results <-chan attempt, n int) {
	for range n {
		if a := <-results; a.conn != nil {
			a.conn.Close()
		}
	}
}
