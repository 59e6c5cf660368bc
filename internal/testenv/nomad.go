package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// NomadBinaries lists the Nomad binaries to test with: those in the folders of
// NOMAD_BINS ("dir:dir"), else the one on PATH. The test is skipped without any.
func NomadBinaries(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, dir := range filepath.SplitList(os.Getenv("NOMAD_BINS")) {
		if p := filepath.Join(dir, "nomad"); isExecutable(p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		if p, err := exec.LookPath("nomad"); err == nil {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		missing(t, "nomad", "no nomad binary in NOMAD_BINS or on PATH")
	}
	return out
}

// NomadVersion is a binary's version, such as "2.0.5".
func NomadVersion(t testing.TB, bin string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), bin, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, v, _ := strings.Cut(strings.SplitN(string(out), "\n", 2)[0], " v")
	return v
}

// Nomad is a real agent, server and client in one, with the plugin loaded; or
// a further client of such a one.
type Nomad struct {
	Addr string // its HTTP address
	Dir  string // everything it writes
	bin  string
	cmd  *exec.Cmd
	log  *os.File
	rpc  int // its server's port
}

// StartNomad starts an agent with plugin as its only extra driver and waits
// until the driver is healthy. pluginConfig is the inside of its config block,
// extra are further agent configurations.
func StartNomad(t testing.TB, bin, plugin, pluginConfig string, extra ...string) *Nomad {
	t.Helper()
	n := &Nomad{bin: bin, Dir: t.TempDir()}
	n.configure(t, "node", plugin, pluginConfig, extra...)
	t.Cleanup(func() { n.shutdown(t) })
	n.Start(t)
	return n
}

// StartClient starts a further client of n's server, with a name, and the plugin
// as StartNomad. It ends with the test, after its tasks.
func (n *Nomad) StartClient(t testing.TB, name, plugin, pluginConfig string, extra ...string) *Nomad {
	t.Helper()
	client := &Nomad{bin: n.bin, Dir: t.TempDir(), rpc: n.rpc}
	client.configure(t, name, plugin, pluginConfig, extra...)
	t.Cleanup(func() {
		client.end(t, syscall.SIGINT)
		UnmountBelow(client.Dir)
	})
	client.Start(t)
	return client
}

// Start starts the agent's process, again after Stop or Kill.
func (n *Nomad) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(n.Dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	n.log = log
	n.cmd = exec.Command(n.bin, "agent", "-config", filepath.Join(n.Dir, "config"))
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.Env = environ()
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, n.cmd.Start())
	n.Eventually(t, Patience, "the driver is healthy", func() bool {
		out, err := n.try(t, "node", "status", "-self", "-json")
		if err != nil {
			return false
		}
		var node struct {
			Drivers map[string]struct{ Healthy bool }
			Status  string
		}
		return json.Unmarshal([]byte(out), &node) == nil && node.Drivers["wardyn"].Healthy && node.Status == "ready"
	})
}

// Stop ends the agent gracefully; tasks go on.
func (n *Nomad) Stop(t testing.TB) { n.end(t, syscall.SIGINT) }

// Kill ends the agent with SIGKILL; plugin and tasks go on.
func (n *Nomad) Kill(t testing.TB) { n.end(t, syscall.SIGKILL) }

// Signal sends the agent's process a signal.
func (n *Nomad) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	must(t, n.cmd.Process.Signal(sig))
}

func (n *Nomad) end(t testing.TB, sig syscall.Signal) {
	t.Helper()
	must(t, n.cmd.Process.Signal(sig))
	done := make(chan struct{})
	go func() { n.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(Patience):
		n.cmd.Process.Kill()
		<-done
		t.Errorf("the agent did not end within %v of %v", Patience, sig)
	}
	n.log.Close()
}

// shutdown purges every job and stops the agent.
func (n *Nomad) shutdown(t testing.TB) {
	if t.Failed() {
		if b, err := os.ReadFile(filepath.Join(n.Dir, "agent.log")); err == nil {
			t.Logf("end of the agent's log:\n%s", b[max(0, len(b)-12000):])
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	out, _ := n.command(ctx, "job", "status", "-json").Output()
	var jobs []struct{ Summary struct{ JobID string } }
	json.Unmarshal(out, &jobs)
	for _, j := range jobs {
		n.command(ctx, "job", "stop", "-purge", "-detach=false", j.Summary.JobID).Run()
	}
	n.command(ctx, "system", "gc").Run()
	n.end(t, syscall.SIGINT)
	UnmountBelow(n.Dir)
}

// CLI runs a nomad command against the agent and returns its output.
func (n *Nomad) CLI(t testing.TB, args ...string) string {
	t.Helper()
	out, err := n.try(t, args...)
	if err != nil {
		t.Fatalf("nomad %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Command is a nomad command against the agent, to be run by the caller.
func (n *Nomad) Command(t testing.TB, args ...string) *exec.Cmd {
	return n.command(t.Context(), args...)
}

// Detached runs a nomad command that no test's end cuts short.
func (n *Nomad) Detached(args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	n.command(ctx, args...).Run()
}

func (n *Nomad) try(t testing.TB, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var b bytes.Buffer
	cmd := n.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	return b.String(), err
}

func (n *Nomad) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, n.bin, args...)
	cmd.Env = append(environ(), "NOMAD_ADDR="+n.Addr)
	return cmd
}

// Eventually waits until ok is true, and fails the test after the limit.
func (n *Nomad) Eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("after %v still not: %s", limit, what)
}

// environ is the environment without what confuses an agent here.
func environ() []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "AWS_CA_BUNDLE=") && !strings.HasPrefix(kv, "NOMAD_") {
			out = append(out, kv)
		}
	}
	return out
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

func isExecutable(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && !fi.IsDir() && fi.Mode()&0o111 != 0
}

// UnmountBelow detaches what is mounted below a folder, such as the secrets
// directories of allocations that an agent had no time to collect.
func UnmountBelow(dir string) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if f := strings.Fields(lines[i]); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
