package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// EngineOptions is how a private engine differs from the machine's.
type EngineOptions struct {
	// Runtimes are registered beside runc.
	Runtimes map[string]Runtime
	// ResolvConf is the engine's own /etc/resolv.conf; "" is the machine's.
	ResolvConf string
	// DataMiB bounds the disk that the engine has, which is then in memory; 0
	// is the machine's.
	DataMiB int
}

// Runtime is a registration of a runtime.
type Runtime struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs,omitempty"`
}

// PrivateEngine is a Docker engine of the test's own that may be killed and
// started again. It has a network namespace of its own, since two engines in
// one rewrite each other's firewall rules, and restores no containers
// (live-restore is off): what runs when it dies it ends when it comes back.
type PrivateEngine struct {
	Endpoint string
	PID      int // of the engine's process

	dir    string
	holder *exec.Cmd // holds the namespaces
	mounts bool      // a mount namespace, too
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has
	up     bool          // it has answered once, so it may have containers
}

// StartEngine starts a private engine and makes it the one under test.
func StartEngine(t testing.TB, o EngineOptions) *PrivateEngine {
	t.Helper()
	for _, tool := range []string{"dockerd", "unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "docker", "a private engine needs "+tool)
		}
	}
	if os.Geteuid() != 0 {
		missing(t, "docker", "a private engine needs root")
	}
	// Short, since a socket's path is limited to 107 bytes.
	dir, err := os.MkdirTemp("", "wardyn-engine-")
	must(t, err)
	e := &PrivateEngine{dir: dir, Endpoint: "unix://" + filepath.Join(dir, "sock")}
	t.Cleanup(func() { e.remove(t) })
	e.configure(t, o.Runtimes)
	if o.DataMiB > 0 {
		data := filepath.Join(dir, "data")
		must(t, os.Mkdir(data, 0o700))
		must(t, syscall.Mount("tmpfs", data, "tmpfs", 0, fmt.Sprintf("size=%dm", o.DataMiB)))
	}
	e.openNamespaces(t, o.ResolvConf)
	e.Start(t)
	t.Setenv("DOCKER_HOST", e.Endpoint)
	return e
}

// Start starts the engine's process, again after Kill, and waits until it
// answers.
func (e *PrivateEngine) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer log.Close()
	e.cmd = exec.Command("nsenter", append(e.enter(),
		"dockerd", "--config-file", filepath.Join(e.dir, "daemon.json"), "--data-root", filepath.Join(e.dir, "data"),
		"--exec-root", filepath.Join(e.dir, "exec"), "--pidfile", filepath.Join(e.dir, "pid"), "-H", e.Endpoint,
		"--containerd-namespace", e.namespace(), "--containerd-plugins-namespace", e.namespace()+"-plugins")...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	must(t, e.cmd.Start())
	e.PID, e.ended = e.cmd.Process.Pid, make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { cmd.Wait(); close(ended) }(e.cmd, e.ended)
	cl := Client(t, e.Endpoint)
	Eventually(t, "the private engine answers", func() bool {
		select {
		case <-e.ended:
			b, _ := os.ReadFile(log.Name())
			t.Fatalf("the private engine ended:\n%s", b)
		default:
		}
		// Stricter than a connect: the socket is there before the engine is.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := cl.Ping(ctx)
		return err == nil
	})
	e.up = true
}

// namespace keeps apart from others' what a containerd of the machine has.
func (e *PrivateEngine) namespace() string { return filepath.Base(e.dir) }

func (e *PrivateEngine) configure(t testing.TB, runtimes map[string]Runtime) {
	t.Helper()
	config := map[string]any{}
	if len(runtimes) > 0 {
		config["runtimes"] = runtimes
	}
	b, err := json.Marshal(config)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(e.dir, "daemon.json"), b, 0o600))
}

// Reload registers other runtimes in place of the present ones, while the
// engine goes on.
func (e *PrivateEngine) Reload(t testing.TB, runtimes map[string]Runtime) {
	t.Helper()
	e.configure(t, runtimes)
	must(t, syscall.Kill(e.PID, syscall.SIGHUP))
	cl := Client(t, e.Endpoint)
	Eventually(t, fmt.Sprintf("the private engine takes up %v", runtimes), func() bool {
		info, err := cl.Info(t.Context())
		must(t, err)
		for name, want := range runtimes {
			got, ok := info.Runtimes[name]
			if !ok || got.Path != want.Path || !slices.Equal(got.Args, want.Args) {
				return false
			}
		}
		return true
	})
}
