package nomad

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// semantics are what Nomad's own verbs and blocks come to with this driver.
func (c *cluster) semantics(t *testing.T) {
	t.Run("restart", c.restarted)
	t.Run("sidecars", c.sidecars)
	t.Run("system job", c.systemJob)
	t.Run("reschedule", c.rescheduled)
	t.Run("canary", c.canary)
	t.Run("sticky disk", c.stickyDisk)
	t.Run("oversubscription", c.oversubscribed)
	t.Run("newer build", c.newerBuild)
	t.Run("reboot", c.rebooted)
	t.Run("drain", c.nodeDrained)
	t.Run("disconnected client", c.disconnected)
}

// restarted: each attempt is a sandbox of its own, the allocation's folder
// stays, and the policy's end is the allocation's failure.
func (c *cluster) restarted(t *testing.T) {
	c.CLI(t, "job", "run", "-detach", "-var", "image="+c.image, filepath.Join("testdata", "restart.nomad.hcl"))
	a := c.until(t, "restart", "failed")
	defer c.Detached("job", "stop", "-purge", "-detach", "restart")
	wants(t, "the log", c.logs(t, a), "attempt 1", "attempt 2", "attempt 3")
	// A client keeps ten events a task, so not all of the starts are among them.
	wants(t, "the events", events(a), "Exit Code: 4", "Exceeded allowed attempts 2")
}

// newerBuild: an operator puts a newer driver in the plugin's place and
// restarts the agent; the task goes on in the same container.
func (c *cluster) newerBuild(t *testing.T) {
	const version = "9.9.9"
	newer := filepath.Join(t.TempDir(), "nomad-driver-wardyn")
	build := exec.Command("go", "build", "-ldflags", "-X main.version="+version, "-o", newer, "./cmd/nomad-driver-wardyn")
	build.Dir, build.Env = testenv.Root(t), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	c.run(t, "signals.nomad.hcl")
	a := c.until(t, "signals", "running")
	c.untilLog(t, a, "ready")
	before := c.container(t)
	c.Stop(t)
	installed := filepath.Join(c.Dir, "plugins", "nomad-driver-wardyn")
	old := filepath.Join(t.TempDir(), "old")
	for _, move := range [][2]string{{installed, old}, {newer, installed}} {
		if out, err := exec.Command("mv", move[0], move[1]).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	c.Start(t)
	wants(t, "the node", c.CLI(t, "node", "status", "-self", "-verbose"), "driver.wardyn.version", version)
	c.Eventually(t, 60*time.Second, "the allocation runs again", func() bool { return c.alloc(t, "signals").ClientStatus == "running" })
	tick := lastTick(c.logs(t, a))
	c.Eventually(t, 60*time.Second, "the log goes on", func() bool { return lastTick(c.logs(t, a)) > tick+10 })
	if after := c.container(t); after != before {
		t.Errorf("container %s became %s", before, after)
	}
	c.stillObeys(t, a)
}

// nodeDrained: a drain stops tasks with their signal and leaves the node empty.
func (c *cluster) nodeDrained(t *testing.T) {
	c.run(t, "signals.nomad.hcl")
	a := c.until(t, "signals", "running")
	c.untilLog(t, a, "ready")
	// Works while the drain goes on and when it has ended; what only enables the
	// node fails in the one case.
	defer c.Detached("node", "drain", "-self", "-disable", "-yes", "-detach")
	defer c.Detached("job", "stop", "-purge", "-detach", "signals")
	c.CLI(t, "node", "drain", "-self", "-enable", "-yes", "-deadline", "60s", "-detach")
	c.Eventually(t, 60*time.Second, "the task was told to end", func() bool {
		out, _ := c.Command(t, "alloc", "logs", a.ID).Output()
		return strings.Contains(string(out), "got TERM")
	})
	c.Eventually(t, 60*time.Second, "the node is empty", func() bool { return c.container(t) == "" })
}
