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

// own runs a job file of testdata; changes are pairs of old and new text.
func (c *cluster) own(t *testing.T, job string, vars []string, changes ...string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", job+".nomad.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	if c.older(t, "1.8") { // before the disconnect block
		changes = append(changes, "disconnect {\n      lost_after = \"10m\"\n    }", `max_client_disconnect = "10m"`)
	}
	file := filepath.Join(t.TempDir(), job+".nomad.hcl")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(changes...).Replace(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"job", "run", "-detach", "-var", "image=" + c.image}
	for _, v := range vars {
		args = append(args, "-var", v)
	}
	c.CLI(t, append(args, file)...)
	t.Cleanup(func() { c.stopAll(job) })
}

// taskLog is the output of one task of an allocation.
func (c *cluster) taskLog(t *testing.T, a alloc, task string) string {
	t.Helper()
	return c.CLI(t, "alloc", "logs", "-task", task, a.ID)
}

// sidecars: a prestart sidecar lives as long as the main task, a poststop task
// comes after both; whose logs are disabled runs like any other. The kinds of
// jobs that run to their end are the same to the driver.
func (c *cluster) sidecars(t *testing.T) {
	for _, kind := range []string{"batch", "sysbatch"} {
		c.own(t, "lifecycle", []string{"type=" + kind})
		a := c.until(t, "lifecycle", "complete", "failed")
		if a.ClientStatus != "complete" {
			t.Fatalf("%s is %s\n%s", kind, a.ClientStatus, events(a))
		}
		wants(t, "the main task's log", c.taskLog(t, a, "main"), "sidecar is up")
		wants(t, "the poststop task's log", c.taskLog(t, a, "last"), "sidecar ended by TERM")
		if files := c.CLI(t, "alloc", "fs", a.ID, "alloc/logs"); strings.Contains(files, "sidecar.std") || !strings.Contains(files, "main.stdout.0") {
			t.Errorf("the logs are\n%s", files)
		}
		c.CLI(t, "job", "stop", "-purge", "lifecycle")
	}
}

// systemJob: one that runs on every node, and is there until it is stopped.
func (c *cluster) systemJob(t *testing.T) {
	c.own(t, "steady", nil, `job "steady" {`, "job \"steady\" {\n  type = \"system\"",
		"    max_parallel     = 1\n    canary           = 1\n    health_check     = \"task_states\"\n    min_healthy_time = \"1s\"\n    healthy_deadline = \"2m\"\n", "",
		"    disconnect {\n      lost_after = \"10m\"\n    }\n", "")
	a := c.running(t, "steady")
	c.untilLog(t, a, "tick 3")
	c.CLI(t, "job", "stop", "-detach", "steady")
	c.untilLog(t, a, "got TERM")
	c.Eventually(t, 60*time.Second, "the container is gone", func() bool { return c.container(t) == "" })
}

// rescheduled: a failed task is placed anew and finds its named workspace.
func (c *cluster) rescheduled(t *testing.T) {
	c.own(t, "reschedule", nil)
	a := c.until(t, "reschedule", "complete")
	wants(t, "the second allocation's log", c.logs(t, a), "attempt 2")
	file := filepath.Join(t.TempDir(), "options.hcl")
	if err := os.WriteFile(file, []byte(c.options), 0o600); err != nil {
		t.Fatal(err)
	}
	c.CLI(t, "job", "stop", "-purge", "reschedule")
	out, err := exec.Command(testenv.Driver(t), "workspaces", "-plugin-config", file, "remove", "default/attempts").CombinedOutput()
	if err != nil {
		t.Errorf("remove the workspace: %v\n%s", err, out)
	}
}
