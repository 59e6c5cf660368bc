package testenv

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// EngineOptions is how a private engine differs from the machine's.
type EngineOptions struct {
	// Runtimes are registered beside runc.
	Runtimes map[string]Runtime
	// ResolvConf is the engine's own /etc/resolv.conf; "" is the machine's.
	ResolvConf string
}

// Runtime is a registration of a runtime.
type Runtime struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs,omitempty"`
}

// PrivateEngine is a Docker engine of the test's own, in a network namespace
// of its own: two engines in one rewrite each other's firewall rules.
type PrivateEngine struct {
	Endpoint string
	PID      int
	dir      string
	ended    chan struct{}
}

// StartEngine starts a private engine and makes it the one under test.
func StartEngine(t *testing.T, o EngineOptions) *PrivateEngine {
	t.Helper()
	for _, tool := range []string{"dockerd", "unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "docker", err.Error())
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("a private engine needs root")
	}
	// Short, since a socket's path is limited to 107 bytes.
	dir, err := os.MkdirTemp("", "wardyn-engine-")
	if err != nil {
		t.Fatal(err)
	}
	e := &PrivateEngine{Endpoint: "unix://" + dir + "/sock", dir: dir, ended: make(chan struct{})}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	e.configure(t, o.Runtimes)
	log := e.start(t, o.ResolvConf)
	e.awaitAnswer(t, log)
	t.Setenv("DOCKER_HOST", e.Endpoint)
	return e
}

func (e *PrivateEngine) start(t *testing.T, resolv string) (log string) {
	t.Helper()
	script := "set -e\nmount --make-rprivate /\n"
	if resolv != "" {
		if err := os.WriteFile(filepath.Join(e.dir, "resolv.conf"), []byte(resolv), 0o644); err != nil {
			t.Fatal(err)
		}
		script += "mount --bind " + e.dir + "/resolv.conf /etc/resolv.conf\n"
	}
	script += fmt.Sprintf(`ip link set lo up
exec dockerd --config-file %[1]s/daemon.json --data-root %[1]s/data --exec-root %[1]s/exec --pidfile %[1]s/pid \
  -H unix://%[1]s/sock --containerd-namespace %[2]s --containerd-plugins-namespace %[2]s-plugins`,
		e.dir, "wardyn-test-"+uuid.NewString()[:8])
	out, err := os.Create(filepath.Join(e.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--net", "--mount", "sh", "-c", script)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.PID = cmd.Process.Pid
	go func() { cmd.Wait(); close(e.ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-e.ended:
		case <-time.After(30 * time.Second):
			cmd.Process.Kill()
			<-e.ended
		}
		out.Close()
	})
	return out.Name()
}

func (e *PrivateEngine) awaitAnswer(t *testing.T, log string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("unix", strings.TrimPrefix(e.Endpoint, "unix://"))
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-e.ended:
			b, _ := os.ReadFile(log)
			t.Fatalf("the private engine ended:\n%s", b)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("the private engine does not answer: %v", err)
		}
	}
}

func (e *PrivateEngine) configure(t *testing.T, runtimes map[string]Runtime) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"runtimes": runtimes})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.dir, "daemon.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Reload registers other runtimes in place of the present ones, while the
// engine goes on.
func (e *PrivateEngine) Reload(t *testing.T, runtimes map[string]Runtime) {
	t.Helper()
	e.configure(t, runtimes)
	if err := syscall.Kill(e.PID, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	cl := Client(t, e.Endpoint)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		info, err := cl.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken := true
		for name, want := range runtimes {
			got, ok := info.Runtimes[name]
			taken = taken && ok && got.Path == want.Path && slices.Equal(got.Args, want.Args)
		}
		if taken {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the private engine did not take up %v: %v", runtimes, info.Runtimes)
		}
	}
}
