package nomad

import (
	"syscall"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// Processes of ours die under a living agent: the task and its log go on.
func (c *cluster) killedUnder(t *testing.T, victims ...func(*testing.T) int) {
	c.run(t, "signals.nomad.hcl")
	a := c.until(t, "signals", "running")
	c.untilLog(t, a, "ready")
	before := c.container(t)
	kill(t, victims...)
	tick := lastTick(c.logs(t, a))
	c.Eventually(t, 60*time.Second, "the log goes on", func() bool { return lastTick(c.logs(t, a)) > tick+25 })
	if after := c.container(t); after != before {
		t.Errorf("container %s became %s", before, after)
	}
	consecutive(t, c.logs(t, a))
	c.stillObeys(t, a)
}

// kill finds all the victims before the first of them dies.
func kill(t *testing.T, victims ...func(*testing.T) int) {
	t.Helper()
	var pids []int
	for _, find := range victims {
		pids = append(pids, find(t))
	}
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// With the agent its plugin and the keeper: all that read or wrote output, but
// for Nomad's own log collector.
func (c *cluster) allKilled(t *testing.T) {
	c.agentAway(t, func(tb testing.TB) {
		kill(t, c.pluginPID, c.keeperPID)
		c.Kill(tb)
	})
}

// keeperPID and holderPID are the pids of this installation's one keeper and
// one holder.
func (c *cluster) keeperPID(t *testing.T) int { t.Helper(); return c.daemonPID(t, "keeper") }
func (c *cluster) holderPID(t *testing.T) int { t.Helper(); return c.daemonPID(t, "holder") }

func (c *cluster) daemonPID(t *testing.T, kind string) int {
	t.Helper()
	found := testenv.Daemons(kind, c.instance(t))
	if len(found) != 1 {
		t.Fatalf("%ss: %v, want one", kind, found)
	}
	return found[0]
}
