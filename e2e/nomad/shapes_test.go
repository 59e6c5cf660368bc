package nomad

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// Options that the shapes need of a client and of an operator, beside what
// every test has.
const shapesClient = `
client {
  max_kill_timeout = "150s"
  host_volume "shape-state" {
    path = %q
  }
}
`

// images that the shapes name, which no test can pull.
var shapeImages = regexp.MustCompile(`"(busybox:1.36|example.org/[^"]*|debian:bookworm-slim|postgres:17)"`)

// shape is the job file of a shape with an image that is here, changed by
// pairs of old and new text; it is submitted at once.
func (c *cluster) shape(t *testing.T, name string, changes ...string) (job string) {
	t.Helper()
	from := filepath.Join(testenv.Root(t), "internal", "jobfile", "testdata", "shapes", name+".nomad.hcl")
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(changes...).Replace(shapeImages.ReplaceAllString(string(b), `"`+c.image+`"`))
	file := filepath.Join(t.TempDir(), name+".nomad.hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.CLI(t, "job", "run", "-detach", file)
	job = "shape-" + name[:2]
	t.Cleanup(func() { c.stopAll(job) })
	return job
}

// shapes runs the jobs that were written for another driver.
func (c *cluster) shapes(t *testing.T) {
	t.Run("04 dispatch", c.dispatched)
	t.Run("05 periodic", c.periodic)
	t.Run("07 spellings", c.spelled)
	t.Run("15 lifecycle", c.lifecycle)
	t.Run("15 failed main", c.cleanedUp)
	t.Run("refusals", c.refusedShapes)
	t.Run("03 drain", c.drained)
	t.Run("03 canary", c.promoted)
	t.Run("10 sandbox", c.handmade)
	t.Run("12 database", c.database)
	t.Run("13 identity", c.identity)
	t.Run("01 bridge", c.bridged)
}

// bridged: what a template made is served on the group's port, to the node and to
// another allocation; the task is root in its sandbox, and its volume is there.
func (c *cluster) bridged(t *testing.T) {
	if cniPath() == "" {
		t.Skip("no CNI plugins (Debian: containernetworking-plugins)")
	}
	a := c.until(t, c.shape(t, "01-web-template-bind"), "running", "failed")
	url := "http://" + c.address(t, a, "http") + "/"
	c.Eventually(t, 60*time.Second, "the bound page is served", func() bool { return page(url) == "alloc "+a.ID+"\n" })
	c.Eventually(t, 60*time.Second, "the service's check passes", func() bool {
		out, _ := c.Command(t, "alloc", "checks", "-json", a.ID).Output()
		return strings.Contains(string(out), `"Status": "success"`)
	})
	c.CLI(t, "alloc", "exec", "-i=false", "-t=false", a.ID, "/bin/sh", "-c", "id -un > /var/lib/app/who && ! touch /srv/x")
	if who, err := os.ReadFile(filepath.Join(c.state, "who")); err != nil || string(who) != "root\n" {
		t.Errorf("the host volume has %q, %v", who, err)
	}
	c.CLI(t, "job", "run", "-detach", "-var", "image="+c.image, "-var", "url="+url, filepath.Join("testdata", "visitor.nomad.hcl"))
	t.Cleanup(func() { c.stopAll("visitor") })
	visitor := c.until(t, "visitor", "complete", "failed")
	wants(t, "what another allocation sees", c.logs(t, visitor), "alloc "+a.ID)
}

// dispatched: meta and payload reach the task, and its code is the shell's.
func (c *cluster) dispatched(t *testing.T) {
	job := c.shape(t, "04-dispatch-batch")
	payload := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(payload, []byte("payload "), 0o600); err != nil {
		t.Fatal(err)
	}
	out := c.CLI(t, "job", "dispatch", "-detach", "-meta", "backup_name=nightly", "-meta", "table=users", job, payload)
	a := c.until(t, dispatchID.FindString(out), "failed", "complete")
	wants(t, "the log", c.logs(t, a), "payload restore nightly table users")
	wants(t, "the events", events(a), "Exit Code: 3")
}

var dispatchID = regexp.MustCompile(`shape-04/dispatch-[0-9a-f-]+`)

// periodic: a launch reads the listed folder and leaves nothing.
func (c *cluster) periodic(t *testing.T) {
	job := c.shape(t, "05-periodic-batch", "/srv/db", c.shared)
	c.CLI(t, "job", "periodic", "force", "-detach", job)
	var child string
	c.Eventually(t, 60*time.Second, "the job was launched", func() bool {
		child = periodicID.FindString(page(c.Addr + "/v1/jobs?prefix=" + job + "/"))
		return child != ""
	})
	a := c.until(t, child, "complete", "failed")
	wants(t, "the log", c.logs(t, a), "backup_20", "/data")
	c.Eventually(t, 60*time.Second, "nothing of it is left", func() bool { return c.container(t) == "" })
}

var periodicID = regexp.MustCompile(`shape-05/periodic-\d+`)

// spelled: blocks, maps and lists of maps are taken as other drivers take them, once
// the port is asked for in the way that all of them have. How much memory may be
// locked is the node's matter.
func (c *cluster) spelled(t *testing.T) {
	a := c.until(t, c.shape(t, "07-hcl-spelling-matrix", "port_map {\n          db = 6379\n        }", `ports = ["db"]`,
		`ports   = ["db"]`, "", `memlock = "-1"`, `memlock = "65536"`), "complete", "failed")
	for name, s := range a.TaskStates {
		if s.State != "dead" || s.Failed {
			t.Errorf("task %s: %+v", name, s)
		}
	}
	if a.ClientStatus != "complete" || len(a.TaskStates) != 3 {
		t.Errorf("status %s:\n%s", a.ClientStatus, events(a))
	}
}

// lifecycle: prestart, main and poststop share the allocation's folder.
func (c *cluster) lifecycle(t *testing.T) {
	a := c.until(t, c.shape(t, "15-init-script-lifecycle"), "complete", "failed")
	wants(t, "the main task's log", c.CLI(t, "alloc", "logs", "-task", "main", a.ID), "mode = first")
	wants(t, "the prestart task's log", c.CLI(t, "alloc", "logs", "-task", "init", a.ID), "nameserver 10.")
	wants(t, "the events", events(a), "dns_servers has no effect", "cleanup * Started")
	if a.ClientStatus != "complete" {
		t.Errorf("status %s:\n%s", a.ClientStatus, events(a))
	}
}

// cleanedUp: the poststop task runs after a failed main one too. Where Nomad
// replaces the allocation at once it may leave that task out, whatever its driver
// (seen with raw_exec), so here it does not.
func (c *cluster) cleanedUp(t *testing.T) {
	a := c.until(t, c.shape(t, "15-init-script-lifecycle", "&& sleep 2", "&& exit 3",
		"    task \"main\" {", "    restart {\n attempts = 0\n mode = \"fail\"\n }\n reschedule {\n attempts = 0\n unlimited = false\n }\n    task \"main\" {"), "failed", "complete")
	c.Eventually(t, 60*time.Second, "the poststop task has run", func() bool {
		return strings.Contains(events(c.alloc(t, "shape-15")), "cleanup * Terminated: Exit Code: 0")
	})
	wants(t, "the events", events(a), "Exit Code: 3")
}

// refusedShapes: one message names all that is refused, and nothing is made.
func (c *cluster) refusedShapes(t *testing.T) {
	for name, parts := range map[string][]string{
		"08-devices-caps":        {"privileged = true", "/dev/ttyACM0", "/dev/video0", "NET_RAW", "NET_ADMIN", "apparmor=unconfined", "refused for 6 reasons", "server * Not Restarting: Error was unrecoverable"},
		"07-hcl-spelling-matrix": {"old-forms * Not Restarting: Error was unrecoverable", "port_map: where the task listens is written on the group's port"},
	} {
		a := c.until(t, c.shape(t, name), "failed")
		wants(t, "the events of "+name, events(a), parts...)
	}
}

// drained: the job runs without the one line that is refused; both ports reach
// its environment, and a stop gives it its kill signal.
func (c *cluster) drained(t *testing.T) {
	job := c.shape(t, "03-api-drain-canary", c.drain("trap 'echo got TERM; exit 0' TERM; echo grpc $GRPC_PORT on $NODE_ID; while :; do sleep 0.2; done")...)
	a := c.until(t, job, "running", "failed")
	said := func(text string) func() bool {
		return func() bool {
			out, _ := c.Command(t, "alloc", "logs", "-task", "start", a.ID).Output()
			return strings.Contains(string(out), text)
		}
	}
	c.Eventually(t, 60*time.Second, "the task is up", said("grpc "))
	_, port, _ := strings.Cut(c.address(t, a, "grpc"), ":")
	wants(t, "the log", c.CLI(t, "alloc", "logs", "-task", "start", a.ID), "grpc "+port+" on "+c.nodeID(t))
	c.CLI(t, "job", "stop", "-detach", job)
	c.Eventually(t, 60*time.Second, "the kill signal came", said("got TERM"))
	c.Eventually(t, 60*time.Second, "the events tell its patience", func() bool {
		return strings.Contains(events(c.alloc(t, job)), "Waiting 2m30s before force killing")
	})
}

// drain are the changes by which shape 03 runs here: without what is refused, and
// with a script as its server.
func (c *cluster) drain(script string) []string {
	return []string{
		`network_mode = "host"`, "",
		`args         = ["--port", "18080"]`, "command = \"/bin/sh\"\nargs = [\"-c\", \"" + script + "\"]",
		`"` + c.image + "\"\n      }\n\n      resources {\n        cpu    = 250", `"` + c.image + "\"\ncommand = \"/bin/true\"\n      }\n\n      resources {\n        cpu    = 250",
	}
}

// promoted: a second version runs beside the first, and takes its place by itself
// once its service's check passes. On one node the two cannot share a static port.
func (c *cluster) promoted(t *testing.T) {
	deploy := func(version string) {
		t.Helper()
		job := c.shape(t, "03-api-drain-canary", append(c.drain("mkdir /tmp/w; echo "+version+" > /tmp/w/health; exec httpd -f -p 18080 -h /tmp/w"),
			"static = 18080", "to = 18080", `"distinct_hosts"`, `"regexp"`, `value    = "true"`, "attribute = \"${attr.kernel.name}\"\nvalue = \"linux\"",
			`"10s"`, `"1s"`, `"150s"`, `"5s"`)...)
		c.Eventually(t, 2*time.Minute, version+" is deployed", func() bool {
			out, _ := c.Command(t, "job", "deployments", "-latest", "-json", job).Output()
			var d struct {
				Status     string
				TaskGroups map[string]struct{ Promoted bool }
			}
			return json.Unmarshal(out, &d) == nil && d.Status == "successful" && (version == "first" || d.TaskGroups["api"].Promoted)
		})
		a := c.until(t, job, "running")
		if got := page("http://" + c.address(t, a, "http") + "/health"); got != version+"\n" {
			t.Errorf("after the deployment of %s it serves %q", version, got)
		}
	}
	deploy("first")
	deploy("second")
}

func (c *cluster) nodeID(t *testing.T) string {
	t.Helper()
	var n struct{ ID string }
	if err := json.Unmarshal([]byte(c.CLI(t, "node", "status", "-self", "-json")), &n); err != nil {
		t.Fatal(err)
	}
	return n.ID
}

// stopAll ends a job and what it launched, after the test's own context. It waits
// a while for the last of them: an agent that is stopped amid a destroy leaves the
// rest to its reaper, and the next test would count it.
func (c *cluster) stopAll(job string) {
	c.Detached("job", "stop", "-purge", "-detach", job)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		out, err := exec.Command("docker", "network", "ls", "-q", "--filter", "label=wardyn.job="+job).Output()
		if err != nil || len(out) == 0 {
			return
		}
	}
}
