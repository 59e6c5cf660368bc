package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/wardyn/nomad-driver-wardyn/internal/datadir"
	"github.com/wardyn/nomad-driver-wardyn/internal/netpool"
	"github.com/wardyn/nomad-driver-wardyn/internal/proxy/controlplane"
	"github.com/wardyn/nomad-driver-wardyn/runner"
	"github.com/wardyn/nomad-driver-wardyn/runner/egress"
	"github.com/wardyn/nomad-driver-wardyn/runner/types"
)

// asSidecar makes this binary look at a socket folder as a sidecar sees it.
const asSidecar = "WARDYN_TEST_AS_SIDECAR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asSidecar); dir != "" {
		if err := lookAsSidecar(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runNet is what the runs of these tests have for a network.
var runNet = netpool.PlanOf(netip.MustParsePrefix("10.213.0.0/29"))

// bench is a server and where its state is.
type bench struct {
	*Server
	dir  *datadir.Dir
	data string
	node egress.NodeConfig
}

// newBench makes a server on a data dir of its own.
func newBench(t *testing.T) *bench {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("sockets are given to the sidecar's user, which takes root")
	}
	b := &bench{data: filepath.Join(t.TempDir(), "data"), node: egress.NodeConfig{Own: []string{"192.0.2.1"}}}
	b.restart(t)
	t.Cleanup(func() {
		for _, id := range b.Runs() {
			if err := b.Forget(id); err != nil {
				t.Error(err)
			}
			if err := b.dir.RemoveRunDir(id); err != nil {
				t.Error(err)
			}
		}
		b.Shutdown()
		if err := b.dir.RemoveRunRoot(); err != nil {
			t.Errorf("left in the run root: %v", err)
		}
	})
	return b
}

// restart takes a new process's place: nothing but the data dir is kept.
func (b *bench) restart(t *testing.T) {
	t.Helper()
	if b.Server != nil {
		b.Shutdown()
	}
	dir, err := datadir.Open(b.data)
	if err != nil {
		t.Fatal(err)
	}
	b.dir = dir
	b.Server = New(Options{Dir: dir, Node: func() egress.NodeConfig { return b.node }, Log: slog.New(slog.DiscardHandler)})
}

// proxyConfig is a run's configuration, as a substrate builds it.
func proxyConfig(t *testing.T, id uuid.UUID) []byte {
	t.Helper()
	raw, err := runner.BuildProxyConfig(id, runner.ProxyConfig{
		RunToken:        tokenOf(id),
		ControlPlaneURL: egress.LocalControlURL,
		Policy:          types.RunPolicySpec{AllowedDomains: []string{"a.example"}},
	}, runner.ProxyListenPort)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func tokenOf(id uuid.UUID) string { return "token-of-" + id.String() }

// open prepares and opens a run with a folder for its files.
func (b *bench) open(t *testing.T, id uuid.UUID, files string, heard func(egress.DecisionLog)) egress.Endpoint {
	t.Helper()
	if err := b.Prepare(Run{ID: id, FilesDir: files, OnDecision: heard}); err != nil {
		t.Fatal(err)
	}
	e, err := b.Open(t.Context(), id, proxyConfig(t, id), runNet)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func filesDir(t *testing.T) string { return filepath.Join(t.TempDir(), "wardyn") }

func socketOf(e egress.Endpoint) string { return filepath.Join(e.Dir, "control.sock") }

// sidecar is the real sidecar's client, with the run's token.
func sidecar(t *testing.T, e egress.Endpoint, token string) *controlplane.Client {
	t.Helper()
	c, err := controlplane.New("unix://" + socketOf(e))
	if err != nil {
		t.Fatal(err)
	}
	c.SetToken(token)
	return c
}

// request sends one by hand and returns status and body.
func request(t *testing.T, e egress.Endpoint, method, path, token, body string) (int, string) {
	t.Helper()
	hc := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socketOf(e))
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://control"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// lookAsSidecar binds the folder read-only, becomes the sidecar's user, and
// tries what a sidecar may and may not.
func lookAsSidecar(dir string) error {
	at, err := os.MkdirTemp("", "sidecar")
	if err != nil {
		return err
	}
	defer os.Remove(at)
	if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("remount: %w", err)
	}
	if err := os.Chmod(at, 0o700); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("the folder is not read-only: %v", err)
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(SidecarUID, SidecarUID, SidecarUID),
		syscall.Seteuid(SidecarUID)); err != nil {
		return fmt.Errorf("become the sidecar's user: %w", err)
	}
	defer syscall.Seteuid(0)
	if c, err := net.Dial("unix", filepath.Join(dir, socketName)); !errors.Is(err, unix.EACCES) {
		if err == nil {
			c.Close()
		}
		return fmt.Errorf("without the mount the socket answers: %v", err)
	}
	c, err := net.Dial("unix", filepath.Join(at, socketName))
	if err != nil {
		return fmt.Errorf("with the mount: %w", err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: control\r\n\r\n", egress.PathConfig)
	head := make([]byte, len("HTTP/1.1 200 OK"))
	if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 200 OK" {
		return fmt.Errorf("the configuration: %q, %v", head, err)
	}
	if err := os.WriteFile(filepath.Join(at, "planted"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("a file was planted: %v", err)
	}
	return nil
}

// asUser connects as somebody else and returns the first line of the answer to
// a request for all approvals.
func asUser(t *testing.T, uid int, dial func() (net.Conn, error)) string {
	t.Helper()
	line := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its identity
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			line <- errno.Error()
			return
		}
		c, err := dial()
		if err != nil {
			line <- err.Error()
			return
		}
		defer c.Close()
		fmt.Fprint(c, "GET /v1/approvals HTTP/1.1\r\nHost: ctl\r\nConnection: close\r\n\r\n")
		b, _ := io.ReadAll(c)
		line <- string(b)
	}()
	return <-line
}
