package nomad

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// awayPool is the egress pool of a second node.
const awayPool = "10.214.216.0/22"

// disconnected: a client that the servers hear nothing of goes on with its
// tasks; when it is back, they are what they were.
func (c *cluster) disconnected(t *testing.T) {
	plugin := testenv.Driver(t)
	far := &cluster{version: c.version, image: c.image, data: filepath.Join(t.TempDir(), "wardyn")}
	far.options = `
    data_dir           = "` + far.data + `"
    endpoint           = "` + testenv.Engine(t) + `"
    egress_subnet_pool = "` + awayPool + `"`
	t.Cleanup(func() { purge(t, plugin, far.options) })
	far.Nomad = c.StartClient(t, "away", plugin, far.options)
	// Nothing else is to be placed there while it ends.
	t.Cleanup(func() { far.Detached("node", "eligibility", "-self", "-disable") })
	c.own(t, "steady", []string{"node=away"})
	a := c.running(t, "steady")
	far.untilLog(t, a, "tick 3")
	before := far.container(t)

	far.Signal(t, syscall.SIGSTOP)
	resumed := false
	defer func() {
		if !resumed {
			far.Signal(t, syscall.SIGCONT)
		}
	}()
	c.Eventually(t, 120*time.Second, "the servers miss the client", func() bool { return c.alloc(t, "steady").ClientStatus == "unknown" })
	if now := far.container(t); now != before {
		t.Errorf("container %s became %s while the client was away", before, now)
	}
	far.Signal(t, syscall.SIGCONT)
	resumed = true
	c.Eventually(t, 120*time.Second, "the allocation is back", func() bool { return c.alloc(t, "steady").ClientStatus == "running" })
	if now := c.alloc(t, "steady"); now.ID != a.ID {
		t.Errorf("allocation %s was replaced by %s", a.ID, now.ID)
	}
	tick := lastTick(far.logs(t, a))
	far.Eventually(t, 60*time.Second, "the log goes on", func() bool { return lastTick(far.logs(t, a)) > tick+10 })
	consecutive(t, far.logs(t, a))
	if now := far.container(t); now != before {
		t.Errorf("container %s became %s", before, now)
	}
	c.CLI(t, "job", "stop", "-purge", "steady")
	far.Eventually(t, 60*time.Second, "the container is gone", func() bool { return far.container(t) == "" })
}

// rebooted: after a node's restart no process of ours is left, containers have
// ended and what was on tmpfs is gone. The task runs anew, once, and nothing of
// its first sandbox is left.
func (c *cluster) rebooted(t *testing.T) {
	c.own(t, "steady", nil)
	a := c.running(t, "steady")
	c.untilLog(t, a, "tick 3")
	before := c.container(t)
	instance := c.instance(t)
	ours := []int{c.pluginPID(t), c.keeperPID(t), c.holderPID(t)}
	c.Kill(t) // first: it would start the plugin anew
	for _, pid := range ours {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, id := range append(c.containers(t, "agent"), c.containers(t, "proxy")...) {
		if out, err := exec.Command("docker", "kill", id).CombinedOutput(); err != nil {
			t.Errorf("docker kill: %v: %s", err, out)
		}
	}
	testenv.UnmountBelow(c.Dir)
	for _, tmpfs := range []string{"/run", "/dev/shm"} {
		dir := filepath.Join(tmpfs, "wardyn", instance)
		testenv.UnmountBelow(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	c.Start(t)
	c.Eventually(t, 90*time.Second, "the task runs anew", func() bool {
		now := c.container(t)
		return now != "" && now != before && !strings.Contains(now, "\n") && c.alloc(t, "steady").ClientStatus == "running"
	})
	if now := c.alloc(t, "steady"); now.ID != a.ID {
		t.Errorf("allocation %s was replaced by %s", a.ID, now.ID)
	}
	c.Eventually(t, 60*time.Second, "nothing of the first sandbox is left", func() bool {
		return len(c.objects(t, "ps", "-a", "label=wardyn.component=agent")) == 1 &&
			len(c.objects(t, "ps", "-a", "label=wardyn.component=proxy")) == 1 && len(c.objects(t, "network", "ls", "name=wardyn_net_")) == 1
	})
	tick := lastTick(c.logs(t, a))
	c.Eventually(t, 60*time.Second, "the log goes on", func() bool { return lastTick(c.logs(t, a)) != tick })
	c.CLI(t, "job", "stop", "-purge", "steady")
	c.Eventually(t, 60*time.Second, "the container is gone", func() bool { return c.container(t) == "" })
}

// objects are the ids of what the engine has of this installation.
func (c *cluster) objects(t *testing.T, list ...string) []string {
	t.Helper()
	args := append(list[:len(list)-1:len(list)-1], "-q", "--no-trunc", "--filter", list[len(list)-1], "--filter", "label=wardyn.instance="+c.instance(t))
	out, err := exec.Command("docker", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
