package nomad

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// Bug 53: a task that reserves a core has it for itself: one that shares its CPUs
// leaves it while it runs, and gets it back.
func (c *cluster) cores(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU cannot be reserved and shared")
	}
	defer c.stopAll("cores")
	run := func(reserved int) {
		c.CLI(t, "job", "run", "-detach", "-var", "image="+c.image, "-var", fmt.Sprint("reserved=", reserved),
			filepath.Join("testdata", "cores.nomad.hcl"))
	}
	run(0)
	all := ""
	c.Eventually(t, time.Minute, "the task runs", func() bool { all = c.allowed(t, "shared"); return all != "" })
	run(1)
	c.Eventually(t, time.Minute, "the reserved core is left", func() bool {
		own, shared := c.allowed(t, "reserved"), c.allowed(t, "shared")
		return own != "" && !strings.ContainsAny(own, "-,") && shared != all && shared != own
	})
	run(0)
	c.Eventually(t, time.Minute, "the core is back", func() bool { return c.allowed(t, "shared") == all })
}

// allowed are the CPUs of a group's running sandbox as the kernel says; "" while
// there is none.
func (c *cluster) allowed(t *testing.T, group string) string {
	t.Helper()
	var allocs []struct{ ID, TaskGroup, ClientStatus string }
	out, err := c.Command(t, "job", "allocs", "-json", "cores").Output()
	if err != nil || json.Unmarshal(out, &allocs) != nil {
		return ""
	}
	cl := testenv.Client(t, testenv.Engine(t))
	for _, a := range allocs {
		if a.TaskGroup != group || a.ClientStatus != "running" {
			continue
		}
		status, _ := c.Command(t, "alloc", "status", a.ID).Output()
		for _, word := range strings.Fields(string(status)) {
			if !strings.HasPrefix(word, "wardyn_agent_") {
				continue
			}
			box, err := cl.ContainerInspect(t.Context(), word)
			if err != nil || box.State == nil || !box.State.Running {
				return ""
			}
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", box.State.Pid))
			_, rest, _ := strings.Cut(string(b), "Cpus_allowed_list:")
			line, _, _ := strings.Cut(rest, "\n")
			return strings.TrimSpace(line)
		}
	}
	return ""
}
