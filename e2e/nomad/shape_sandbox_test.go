package nomad

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// handmade: a sandbox that somebody drives through exec alone, under gVisor and
// without any network.
func (c *cluster) handmade(t *testing.T) {
	if !strings.Contains(strings.Join(testenv.Runtimes(t), " "), "runsc") {
		t.Skip("no runsc")
	}
	job := c.shape(t, "10-agent-sandbox-exec")
	a := c.running(t, job)
	exec := func(argv ...string) (string, int) {
		out, err := c.Command(t, append([]string{"alloc", "exec", "-i=false", "-t=false", a.ID}, argv...)...).CombinedOutput()
		return string(out), exitCode(err)
	}
	if _, code := exec("sh", "-c", "exit 42"); code != 42 {
		t.Errorf("exit code %d, want 42", code)
	}

	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	w.WriteHeader(&tar.Header{Name: "in/file", Mode: 0o644, Size: 5})
	w.Write([]byte("hello"))
	w.Close()
	untar := c.Command(t, "alloc", "exec", "-i", "-t=false", a.ID, "tar", "x")
	untar.Stdin = &archive
	if out, err := untar.CombinedOutput(); err != nil {
		t.Errorf("tar: %v\n%s", err, out)
	}
	wants(t, "the workspace", c.CLI(t, "alloc", "fs", a.ID, "sandbox/local/workspace/in/file"), "hello")

	const lines = 100_000
	if out, code := exec("seq", "100000"); code != 0 || strings.Count(out, "\n") != lines || !strings.HasSuffix(out, "\n100000\n") {
		t.Errorf("exit code %d, %d lines", code, strings.Count(out, "\n"))
	}
	out, _ := exec("sh", "-c", "pwd; echo $HOME; grep -h CapEff /proc/self/status; ls /sys/class/net; cat /proc/net/dev | wc -l")
	wants(t, "the sandbox", out, "/workspace\n/workspace\n", "CapEff:\t0000000000000000")
	wants(t, "wardyn status", c.CLI(t, "alloc", "exec", a.ID, "wardyn", "status"), "CC2")
	// Those of an earlier job may still be on their way out.
	c.Eventually(t, 60*time.Second, "no sidecar is there for a sandbox without a network", func() bool { return len(c.containers(t, "proxy")) == 0 })
	if out, code := exec("sh", "-c", "wget -q -T 3 -O - http://artifacts.example.internal:8080/"); code == 0 {
		t.Errorf("it has a network: %s", out)
	}

	// The command is sleep, which as pid 1 would not hear of a signal: that it
	// ended by one and not by the kill is what an init is for.
	c.CLI(t, "job", "stop", "-detach", job)
	c.Eventually(t, 60*time.Second, "the task has ended", func() bool { return len(c.containers(t, "agent")) == 0 })
	c.Eventually(t, 60*time.Second, "the client tells that a signal ended it", func() bool {
		return strings.Contains(events(c.alloc(t, job)), "Exit Code: 143")
	})
}
