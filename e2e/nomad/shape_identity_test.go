package nomad

import (
	"strings"
	"testing"
	"time"
)

// identity: the files of a workload identity are the task's to read and nobody
// else's, follow their renewal, and stay when the client restarts and when the
// sandbox is suspended.
func (c *cluster) identity(t *testing.T) {
	if cniPath() == "" {
		t.Skip("no CNI plugins (Debian: containernetworking-plugins)")
	}
	c.CLI(t, "var", "put", "-force", "nomad/jobs/shape-13", "webhook=hook")
	file, changes := "/secrets/nomad_api.jwt", []string{
		`driver = "wardyn"`, "driver = \"wardyn\"\nuser = \"daemon\"", // whom node and image both have
		`image = "` + c.image + `"`, `image = "` + c.image + "\"\ncommand = \"/bin/sleep\"\nargs = [\"100000\"]\nmount_secrets = true",
		`"1h"`, `"15s"`,
	}
	if c.older(t, "1.7") { // one identity a task, which lasts as long as the allocation
		file = "/secrets/nomad_token"
		changes = append(changes, "identity {\n        name        = \"api\"\n        aud         = [\"nomad.io\"]\n        file        = true\n        ttl         = \"1h\"\n        change_mode = \"noop\"\n      }", "")
	}
	job := c.shape(t, "13-workload-identity", changes...)
	a := c.running(t, job)
	read := func() string {
		out, _ := c.Command(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "/bin/cat", file).CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	first := read()
	if strings.Count(first, ".") != 2 {
		t.Fatalf("%s is no token: %s", file, first)
	}
	wants(t, "the file", c.CLI(t, "alloc", "exec", a.ID, "/bin/ls", "-ln", file), "-rw-------", " 1 ")
	env := c.CLI(t, "alloc", "exec", a.ID, "/bin/sh", "-c", "tr '\\0' '\\n' < /proc/1/environ; env")
	wants(t, "the environment", env, "LOGIN_JWT_FILE=/secrets/nomad_api.jwt", "WEBHOOK_SECRET=hook")
	if strings.Contains(env, "NOMAD_TOKEN") { // K25: only with expose_tokens
		t.Error("the environment has the token")
	}
	renewed := func(what string) {
		t.Helper()
		if c.older(t, "1.7") {
			return
		}
		before := read()
		c.Eventually(t, 90*time.Second, "the token is renewed "+what, func() bool { s := read(); return strings.Count(s, ".") == 2 && s != before })
	}
	renewed("while the task runs")

	before := c.container(t)
	c.Stop(t)
	c.Start(t)
	c.Eventually(t, 60*time.Second, "the allocation runs again", func() bool { return c.alloc(t, job).ClientStatus == "running" })
	c.Eventually(t, 60*time.Second, "the token is there after a restart of the client", func() bool { return strings.Count(read(), ".") == 2 })
	if after := c.container(t); after != before {
		t.Errorf("container %s became %s", before, after)
	}
	c.CLI(t, "alloc", "exec", a.ID, "wardyn", "suspend")
	c.CLI(t, "alloc", "exec", a.ID, "wardyn", "resume")
	renewed("after a restart and a suspension")
	if strings.Count(read(), ".") != 2 {
		t.Errorf("after a suspension: %s", read())
	}

	c.CLI(t, "job", "stop", "-detach", job)
	c.Eventually(t, 60*time.Second, "the task has ended", func() bool { return len(c.containers(t, "agent")) == 0 })
	wants(t, "the events", events(c.alloc(t, job)), "shutdown_delay of 5s")
}
