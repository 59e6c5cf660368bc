package ports

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// tcpPort is a port to be opened for TCP.
func tcpPort(label string, at netip.AddrPort) Port {
	return Port{Label: label, Network: TCP, Addr: at.Addr(), Port: at.Port(), To: 80}
}

// taken is an address that somebody else listens at.
func taken(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", testenv.Loopback(t).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// serve answers fetches at the returned path.
func serve(t *testing.T, s *Set, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ports.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			s.Serve(c, func(got string) bool { return got == token })
		}
	}()
	return path
}

// K18: the sidecar gets the open socket itself, and only once; what is missing
// later is opened anew.
func TestFetchedSocketsServeAndCanBeHadAgain(t *testing.T) {
	at := testenv.Loopback(t)
	ps := []Port{tcpPort("http", at), tcpPort("http", at)}
	ps[1].Network = UDP
	s, err := Open(ps)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := serve(t, s, "secret")
	got, err := Fetch(path, "secret", nil)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d sockets, %v; want 2", len(got), err)
	}
	if got[0].Port != ps[0] || got[1].Port != ps[1] {
		t.Errorf("got %v and %v", got[0].Port, got[1].Port)
	}
	l, err := net.FileListener(got[0].File)
	if err != nil {
		t.Fatal(err)
	}
	got[0].File.Close()
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatalf("the socket does not listen: %v", err)
	}
	c.Close()
	if again, err := Fetch(path, "secret", []string{"http/tcp", "http/udp"}); err != nil || len(again) != 0 {
		t.Errorf("a sidecar that has all was given %d sockets, %v", len(again), err)
	}
	l.Close() // as a sidecar that died
	again, err := Fetch(path, "secret", []string{"http/udp"})
	if err != nil || len(again) != 1 || again[0].Key() != "http/tcp" {
		t.Fatalf("a new sidecar got %v, %v", again, err)
	}
	again[0].File.Close()
	got[1].File.Close()
}

// K18: ports of a task that is not there yet refuse instead of keeping clients
// waiting, and are the task's again when it comes.
func TestPortsAtRest(t *testing.T) {
	free := testenv.Loopback(t)
	s, err := Open([]Port{tcpPort("http", free)})
	if err != nil {
		t.Fatal(err)
	}
	at := free.String()
	answers := func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	s.Rest()
	if answers() {
		t.Error("it answers at rest")
	}
	other, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); !errors.Is(err, ErrInUse) {
		t.Errorf("somebody else listens: %v", err)
	}
	other.Close()
	for range 2 {
		if err := s.Listen(); err != nil || !answers() {
			t.Errorf("after the rest: %v", err)
		}
	}
	s.Close()
	if err := s.Listen(); err != nil || answers() {
		t.Errorf("a closed set opened: %v", err)
	}
	(*Set)(nil).Rest()
	if err := (*Set)(nil).Listen(); err != nil {
		t.Error(err)
	}
}

func TestFetchNeedsTheRunsToken(t *testing.T) {
	s, err := Open([]Port{tcpPort("a", testenv.Loopback(t))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, _ := Fetch(serve(t, s, "secret"), "another", nil)
	if len(got) != 0 {
		t.Errorf("got %d sockets with another token", len(got))
	}
	if len(s.open) != 1 {
		t.Error("the socket was given away")
	}
}

// An address in use is named with its port; nothing stays open.
func TestAddressInUse(t *testing.T) {
	free := testenv.Loopback(t)
	_, err := Open([]Port{tcpPort("good", free), tcpPort("bad", taken(t))})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), `port "bad"`) {
		t.Fatalf("error %v", err)
	}
	l, err := net.Listen("tcp", free.String())
	if err != nil {
		t.Errorf("the other port stayed open: %v", err)
	} else {
		l.Close()
	}
}

// What cannot be opened is an error of the fetch; the rest comes all the same.
func TestFetchNamesWhatIsMissing(t *testing.T) {
	s := NewSet([]Port{tcpPort("bad", taken(t)), tcpPort("good", testenv.Loopback(t))})
	defer s.Close()
	got, err := Fetch(serve(t, s, ""), "", nil)
	if len(got) != 1 || got[0].Label != "good" || err == nil || !strings.Contains(err.Error(), `port "bad"`) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, o := range got {
		o.File.Close()
	}
}

// K18, bridge and CNI: the socket is the group's namespace's, not the host's.
func TestNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	ns := namespace(t)
	f, err := listen(Port{Label: "a", Network: TCP, Namespace: ns, Port: 8080})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dial := func() error {
		c, err := net.Dial("tcp", "127.0.0.1:8080")
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := within(ns, dial); err != nil {
		t.Errorf("inside the namespace: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err == nil {
		l.Close()
	} else if !errors.Is(err, unix.EADDRINUSE) {
		t.Error(err)
	}
	if _, err := listen(Port{Label: "a", Network: TCP, Namespace: ns + "-gone", Port: 1}); err == nil || !strings.Contains(err.Error(), "network namespace") {
		t.Errorf("a namespace that is gone: %v", err)
	}
}

// namespace makes a network namespace with its loopback up and binds it to a
// path, as a Nomad client does.
func namespace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ns")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is spent
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = loopbackUp()
		}
		if err == nil {
			err = unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}
