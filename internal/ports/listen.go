package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// busyFor is how long an address that is in use is tried again: the task's
// last attempt may just be letting go of it.
const (
	busyFor   = 2 * time.Second
	busyPause = 50 * time.Millisecond
)

// ErrInUse says that somebody else listens where a port should be.
var ErrInUse = errors.New("the address is in use")

// listen opens one port's socket.
func listen(p Port) (*os.File, error) {
	var f *os.File
	err := within(p.Namespace, func() (err error) {
		for end := time.Now().Add(busyFor); ; time.Sleep(busyPause) {
			f, err = socket(p)
			if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
				return err
			}
		}
	})
	if errors.Is(err, unix.EADDRINUSE) {
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p, err)
	}
	return f, nil
}

// socket opens a port's socket in the current network namespace.
func socket(p Port) (*os.File, error) {
	host := ""
	if p.Addr.IsValid() {
		host = p.Addr.String()
	}
	at := net.JoinHostPort(host, strconv.Itoa(int(p.Port)))
	switch p.Network {
	case TCP:
		// Keep-alive is the side's that accepts.
		l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(context.Background(), TCP, at)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		return l.(*net.TCPListener).File()
	case UDP:
		c, err := net.ListenPacket(UDP, at)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return c.(*net.UDPConn).File()
	}
	return nil, fmt.Errorf("network %q: want tcp or udp", p.Network)
}

// within runs f in the network namespace at path; "" is the current one.
func within(path string, f func() error) error {
	if path == "" {
		return f()
	}
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer ns.Close()
	done := make(chan error, 1)
	go func() {
		// The thread is never unlocked, so it ends with this goroutine, and
		// with it the foreign namespace.
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("network namespace %s: %w", path, err)
			return
		}
		done <- f()
	}()
	return <-done
}
