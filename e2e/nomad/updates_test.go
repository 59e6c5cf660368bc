package nomad

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// canary: the new version runs beside the old until it is promoted; then the
// old one is stopped with its signal.
func (c *cluster) canary(t *testing.T) {
	c.own(t, "steady", nil)
	old := c.running(t, "steady")
	c.untilLog(t, old, "version 1 ")
	c.deployed(t, "steady", "successful")
	c.own(t, "steady", []string{"version=2"})
	var fresh alloc
	c.Eventually(t, 90*time.Second, "the canary runs", func() bool {
		fresh = c.alloc(t, "steady")
		return fresh.ID != old.ID && fresh.ClientStatus == "running"
	})
	c.untilLog(t, fresh, "version 2 ")
	if n := len(c.containers(t, "agent")); n != 2 {
		t.Errorf("%d sandboxes run, want the old one and the canary", n)
	}
	c.Eventually(t, 90*time.Second, "the canary is promoted", func() bool {
		return c.Command(t, "job", "promote", "-detach", "steady").Run() == nil // not before it is healthy
	})
	c.untilLog(t, old, "got TERM")
	c.deployed(t, "steady", "successful")
	c.Eventually(t, 60*time.Second, "one sandbox runs", func() bool { return len(c.containers(t, "agent")) == 1 })
	if now := c.alloc(t, "steady"); now.ID != fresh.ID {
		t.Errorf("allocation %s became %s", fresh.ID, now.ID)
	}
	c.CLI(t, "job", "stop", "-purge", "steady")
	c.Eventually(t, 60*time.Second, "nothing runs", func() bool { return c.container(t) == "" })
}

// stickyDisk: where the group's disk is sticky, an update's allocation has the
// workspace of the one before, and its user can still write to it.
func (c *cluster) stickyDisk(t *testing.T) {
	c.own(t, "sticky", nil)
	first := c.running(t, "sticky")
	c.untilLog(t, first, "at /workspace as 1000 saw 1 of 1000")
	c.own(t, "sticky", []string{"version=2"})
	var next alloc
	c.Eventually(t, 90*time.Second, "another allocation runs", func() bool {
		next = c.alloc(t, "sticky")
		return next.ID != first.ID && next.ClientStatus == "running"
	})
	c.untilLog(t, next, "at /workspace as 1000 saw 1 2 of 1000")
	c.CLI(t, "job", "stop", "-purge", "sticky")
	c.Eventually(t, 60*time.Second, "nothing runs", func() bool { return c.container(t) == "" })
}

// deployed waits for the status of a job's latest deployment.
func (c *cluster) deployed(t *testing.T, job, status string) {
	t.Helper()
	c.Eventually(t, 90*time.Second, "the deployment is "+status, func() bool {
		var all []struct {
			Status      string
			CreateIndex int
		}
		out, err := c.Command(t, "job", "deployments", "-json", job).Output()
		if err != nil || json.Unmarshal(out, &all) != nil || len(all) == 0 {
			return false
		}
		latest := all[0]
		for _, d := range all {
			if d.CreateIndex > latest.CreateIndex {
				latest = d
			}
		}
		return latest.Status == status
	})
}

// oversubscribed (nomad#10895): what the scheduler allows above memory reaches
// the sandbox; what it does not, Nomad drops before the driver hears of it. An
// agent that the operator names tells, and an event says so.
func (c *cluster) oversubscribed(t *testing.T) {
	c.reconfigured(t, "data_dir           =", `agent_api { url = "`+c.Addr+`" }
    data_dir           =`)
	for allowed, want := range map[string][2]string{
		"false": {"may have 64 MiB and at most no more", "67108864"},
		"true":  {"may have 64 MiB and at most 128", "134217728"},
	} {
		c.CLI(t, "operator", "scheduler", "set-config", "-memory-oversubscription="+allowed)
		c.own(t, "steady", nil)
		c.untilLog(t, c.running(t, "steady"), want[0])
		const dropped = "memory_max (128 MiB) is not in force"
		if allowed == "false" {
			c.Eventually(t, 60*time.Second, "an event tells of it", func() bool { return strings.Contains(events(c.alloc(t, "steady")), dropped) })
		} else if said := events(c.alloc(t, "steady")); strings.Contains(said, dropped) {
			t.Errorf("the events are\n%s", said)
		}
		if got := c.inspect(t, "{{.HostConfig.Memory}}"); got != want[1] {
			t.Errorf("oversubscription %s: a limit of %s bytes, want %s", allowed, got, want[1])
		}
		c.CLI(t, "job", "stop", "-purge", "steady")
		c.Eventually(t, 60*time.Second, "nothing runs", func() bool { return c.container(t) == "" })
	}
	c.CLI(t, "operator", "scheduler", "set-config", "-memory-oversubscription=false")
}

// reconfigured restarts the agent with a text of its configuration replaced.
func (c *cluster) reconfigured(t *testing.T, old, text string) {
	t.Helper()
	file := filepath.Join(c.Dir, "config", "agent.hcl")
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatalf("%v; %q is not in\n%s", err, old, b)
	}
	c.Stop(t)
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), old, text, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Start(t)
}
