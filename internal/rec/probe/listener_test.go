package probe

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// fullListener is a TCP address that takes no further connection: as silent
// as a packet filter that drops.
func fullListener(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	addr := loopbackAddr(t, fd)
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	c, err := net.DialTimeout("tcp", addr, testenv.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	testenv.Eventually(t, "the listener's queue is full", func() bool {
		// Of a listener these are how many wait in it, and how many may.
		i, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		return i.Unacked > i.Sacked
	})
	return addr
}

// refusing is a TCP address that is nobody else's and where nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return loopbackAddr(t, fd)
}

// loopbackAddr binds a socket to a port of loopback.
func loopbackAddr(t *testing.T, fd int) string {
	t.Helper()
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*unix.SockaddrInet4).Port}).String()
}

func TestListenUntilTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "listen", "tcp:127.0.0.1:0", "udp:127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range 2 {
		if !lines.Scan() {
			t.Fatal("no line from listen")
		}
		if r := verdicts(t, "-timeout", testenv.Patience.String(), lines.Text()[len("listening "):]); !r[0].Reached {
			t.Errorf("%+v", r)
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
