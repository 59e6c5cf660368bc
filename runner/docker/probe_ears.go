package docker

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// probeSockets is where a probe finds a folder of the host with a socket in it.
const (
	probeSockets = "/probe"
	probeSocket  = "unix:" + probeSockets + "/s"
)

// errHostSockets: gVisor can be told to let its sandboxes out by a socket's path.
var errHostSockets = errors.New("it lets a sandbox connect to unix sockets of the host; register the runtime without --host-uds and --fsgofer-host-uds")

// ears are what the host listens with while a probe tries to be heard: some
// packets arrive that can never be answered.
type ears struct {
	strays net.PacketConn // hears broadcasts and multicasts
	dir    string         // folder with a socket that answers; "" is none
	socket net.Listener
}

// listen opens the ears. The socket is for gVisor, which keeps sandboxes from
// those of the host unless it was told otherwise; elsewhere who has a socket
// mounted may use it.
func (r *Runner) listen(s subject) (*ears, error) {
	strays, err := net.ListenPacket("udp4", ":0")
	if err != nil {
		return nil, fmt.Errorf("listen for a probe's broadcasts: %w", err)
	}
	e := &ears{strays: strays}
	if s.class != types.CC2 {
		return e, nil
	}
	e.dir = r.earsDir(s)
	if err := e.openSocket(); err != nil {
		e.close()
		return nil, fmt.Errorf("socket for a probe: %w", err)
	}
	return e, nil
}

// earsPrefix begins the names of folders in the run root with a probe's socket.
const earsPrefix = "probe-"

// earsDir is where a probe finds its socket: one place for each, so that what a
// process that was killed left there is found. The path of a socket is short.
func (r *Runner) earsDir(s subject) string {
	rt := runtimeWord(s.runtime)
	return filepath.Join(r.opts.Dir.RunRoot(), earsPrefix+string(s.class)+"-"+rt[:min(40, len(rt))])
}

func (e *ears) openSocket() error {
	err := os.Mkdir(e.dir, 0o700)
	if err != nil {
		return err
	}
	path := filepath.Join(e.dir, "s")
	if e.socket, err = net.Listen("unix", path); err != nil {
		return err
	}
	go func() {
		for {
			c, err := e.socket.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("heard\n"))
			c.Close()
		}
	}()
	// The probe's user is nobody in particular.
	return errors.Join(os.Chmod(path, 0o666), os.Chmod(e.dir, 0o755))
}

// targets are what a probe on that network is to try so as to be heard.
func (e *ears) targets(subnet netip.Prefix) []string {
	port := e.strays.LocalAddr().(*net.UDPAddr).Port
	var out []string
	for _, a := range []string{"255.255.255.255", lastOf(subnet).String(), "224.0.0.1"} {
		out = append(out, fmt.Sprintf("udp:%s:%d", a, port))
	}
	if e.socket != nil {
		out = append(out, probeSocket)
	}
	return out
}

// lastOf is an IPv4 subnet's broadcast address.
func lastOf(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(a)
}

// judge says whether anything was heard; nil is no. The probe is over, so what
// it sent has arrived.
func (e *ears) judge() error {
	raw, err := e.strays.(syscall.Conn).SyscallConn()
	if err != nil {
		return fmt.Errorf("listen for a probe's broadcasts: %w", err)
	}
	b := make([]byte, 64)
	for {
		// Without a deadline: one that has passed before the read, on a busy
		// host, hides what has arrived.
		var n int
		var from unix.Sockaddr
		var rerr error
		err := raw.Read(func(fd uintptr) bool {
			n, from, rerr = unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
			return true
		})
		switch {
		case errors.Is(rerr, unix.EAGAIN):
			return nil
		case rerr == nil && err == nil && strings.HasPrefix(string(b[:n]), "wardyn-rec"):
			return fmt.Errorf("the host hears broadcasts of a sandbox (from %s); no sandbox is created while that is so: net.ipv4.conf.BRIDGE.rp_filter must stay 1", senderOf(from))
		case errors.Is(rerr, unix.EINTR), rerr == nil && err == nil:
		default:
			return fmt.Errorf("listen for a probe's broadcasts: %w", errors.Join(err, rerr))
		}
	}
}

// senderOf is an IPv4 socket's address and port.
func senderOf(a unix.Sockaddr) string {
	if v4, ok := a.(*unix.SockaddrInet4); ok {
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), uint16(v4.Port)).String()
	}
	return "an unknown address"
}

func (e *ears) close() {
	e.strays.Close()
	if e.socket != nil {
		e.socket.Close()
	}
	if e.dir != "" {
		os.RemoveAll(e.dir)
	}
}
