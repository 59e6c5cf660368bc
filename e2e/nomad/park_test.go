package nomad

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// parked: a task is parked by its user, while the agent restarts and while the
// plugin is killed, and goes on by itself only when it is told to. To Nomad it
// runs all the time.
func (c *cluster) parked(t *testing.T) {
	c.run(t, "signals.nomad.hcl")
	a := c.until(t, "signals", "running")
	c.untilLog(t, a, "tick 3\n")
	before := c.container(t)
	if out := c.verb(t, a, "suspend", "-cold"); out != "parked\n" {
		t.Errorf("suspend -cold: %q", out)
	}
	c.isParked(t, a)
	c.Stop(t)
	c.Start(t)
	c.isParked(t, a)
	kill(t, c.pluginPID)
	c.isParked(t, a)
	// Nomad's agent may hang up before its client has read the reason.
	c.Eventually(t, 60*time.Second, "an exec in a parked task is told why it is refused", func() bool {
		out, err := c.Command(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "true").CombinedOutput()
		if err == nil {
			t.Fatalf("exec in a parked task: %s", out)
		}
		return strings.Contains(string(out), "parked; resume it first")
	})
	if out := c.verb(t, a, "resume"); out != "running\n" {
		t.Errorf("resume: %q", out)
	}
	c.Eventually(t, 60*time.Second, "the command begins anew, in the same log", func() bool {
		log := c.logs(t, a)
		return strings.Count(log, "ready\n") == 2 && strings.Count(log, "tick 3\n") == 2
	})
	if log := c.logs(t, a); strings.Count(log, "got TERM") != 1 || strings.Count(log, "tick 1\n") != 2 {
		t.Errorf("the log:\n%s", log)
	}
	if after := c.container(t); after != before {
		t.Errorf("container %s became %s", before, after)
	}
	c.stopsParked(t, a)
}

// verb is the answer of one of the driver's own verbs.
func (c *cluster) verb(t *testing.T, a alloc, words ...string) string {
	t.Helper()
	return c.CLI(t, append([]string{"alloc", "exec", "-i=false", "-t=false", a.ID, "wardyn"}, words...)...)
}

// isParked checks what the engine, the driver and Nomad say of a parked task.
func (c *cluster) isParked(t *testing.T, a alloc) {
	t.Helper()
	c.Eventually(t, 60*time.Second, "the driver says that it is parked", func() bool {
		out, err := c.Command(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "wardyn", "status").Output()
		return err == nil && strings.Contains(string(out), "parked")
	})
	if running := c.containers(t, "agent"); len(running) != 0 {
		t.Errorf("a parked task's container runs: %v", running)
	}
	if now := c.alloc(t, "signals"); now.ID != a.ID || now.ClientStatus != "running" {
		t.Errorf("allocation %s is %s, was %s", now.ID, now.ClientStatus, a.ID)
	}
}

// stopsParked parks a task again, through a signal it is resumed by, and ends it
// parked: with the code that its process had.
func (c *cluster) stopsParked(t *testing.T, a alloc) {
	c.verb(t, a, "suspend", "-cold")
	c.CLI(t, "alloc", "signal", "-s", "SIGCONT", a.ID)
	c.Eventually(t, 60*time.Second, "it begins a third time", func() bool { return strings.Count(c.logs(t, a), "ready\n") == 3 })
	c.verb(t, a, "suspend", "-cold")
	c.isParked(t, a)
	c.CLI(t, "job", "stop", "-detach", "signals")
	c.until(t, "signals", "complete", "failed")
	wants(t, "the events", events(c.alloc(t, "signals")), "Task parked", "Exit Code: 7")
	c.CLI(t, "job", "stop", "-purge", "signals")
	c.Eventually(t, 60*time.Second, "nothing of it is left", func() bool { return len(testenv.Leftovers(t, testenv.Engine(t), "wardyn.alloc-id="+a.ID)) == 0 })
}

// actions: what the driver's verbs do they do as actions of a job, too, which
// are buttons in Nomad's own pages.
func (c *cluster) actions(t *testing.T) {
	if c.older(t, "1.7") {
		return // Nomad has none
	}
	block := ""
	for _, verb := range []string{"suspend", "status", "resume"} {
		block += fmt.Sprintf("action %q {\n command = \"wardyn\"\n args = [%q]\n}\n", verb, verb)
	}
	c.own(t, "steady", nil, "      resources {\n", block+"      resources {\n")
	a := c.running(t, "steady")
	c.untilLog(t, a, "tick 3")
	press := func(verb string) string {
		t.Helper()
		return c.CLI(t, "action", "-job", "steady", "-group", "main", "-task", "steady", "-alloc", a.ID, "-i=false", "-t=false", verb)
	}
	wants(t, "suspend", press("suspend"), "suspended")
	tick := lastTick(c.logs(t, a))
	wants(t, "status", press("status"), "suspended")
	wants(t, "resume", press("resume"), "running")
	c.Eventually(t, 60*time.Second, "the log goes on", func() bool { return lastTick(c.logs(t, a)) > tick })
	consecutive(t, c.logs(t, a))
	c.CLI(t, "job", "stop", "-purge", "steady")
	c.Eventually(t, 60*time.Second, "the container is gone", func() bool { return c.container(t) == "" })
}
