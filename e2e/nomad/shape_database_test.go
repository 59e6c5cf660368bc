package nomad

import (
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// database: the client's script checks run in the sandbox, as the task's user
// and with its environment; their code decides, and one that hangs is cut off.
func (c *cluster) database(t *testing.T) {
	if cniPath() == "" {
		t.Skip("no CNI plugins (Debian: containernetworking-plugins)")
	}
	image := testenv.ImageWith(t, testenv.ImageConfig{
		Cmd:        []string{"/bin/sh", "-c", `trap 'echo got INT; exit 0' INT; trap 'echo got TERM; exit 1' TERM; echo up as $(id -un); while :; do sleep 0.2; done`},
		ExtraFiles: map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\npostgres:x:7777:7777::/:/bin/sh\n"},
	})
	c.CLI(t, "var", "put", "-force", "nomad/jobs/shape-12", "password=letmein")
	job := c.shape(t, "12-database-script-check", `"`+c.image+`"`, `"`+image+`"`,
		`"pg_isready"`, `"/bin/sh"`,
		`["-U", "app"]`, `["-c", "echo $(id -un) $POSTGRES_USER $POSTGRES_PASSWORD $PATH; test -e /alloc/data/ready || exit 2"]`,
		`"30s"`, `"1s"`, `"60s"`, `"30m"`,
		"success_before_passing   = 3", "", "failures_before_critical = 3", "", // Nomad has them for other checks
		"      check {\n        name     = \"tcp\"", hanging+"      check {\n        name     = \"tcp\"")
	a := c.running(t, job)
	c.untilLog(t, a, "up as postgres")

	said := func(check, status, text string) func() bool {
		return func() bool {
			all := c.consul.said(check)
			if len(all) == 0 {
				return false
			}
			last := all[len(all)-1]
			return last.Status == status && strings.Contains(last.Output, text)
		}
	}
	c.Eventually(t, 60*time.Second, "the check fails", said("ready", "critical", "postgres app letmein /usr/local/sbin:"))
	c.CLI(t, "alloc", "exec", a.ID, "/bin/touch", "/alloc/data/ready")
	c.Eventually(t, 60*time.Second, "the check passes", said("ready", "passing", ":/usr/lib/postgresql/17/bin"))
	c.Eventually(t, 60*time.Second, "the check that hangs was cut off again and again", func() bool { return len(c.consul.said("hangs")) >= 3 })
	if r := c.consul.said("hangs")[0]; r.Status != "critical" {
		t.Errorf("the check that hangs: %+v", r)
	}
	if ps := c.CLI(t, "alloc", "exec", a.ID, "/bin/ps", "-o", "args"); strings.Count(ps, "sleep 1000") > 2 { // its wrapper and itself
		t.Errorf("checks were left running:\n%s", ps)
	}
	labels := c.inspect(t, `{{index .Config.Labels "example.application.name"}} {{index .Config.Labels "example.application.version"}}`)
	if labels != "pg 17" {
		t.Errorf("labels %q", labels)
	}
	c.CLI(t, "job", "stop", "-detach", job)
	c.untilLog(t, a, "got INT")
}

// hanging is a check that never ends by itself.
const hanging = `
      check {
        name     = "hangs"
        type     = "script"
        task     = "postgres"
        command  = "/bin/sleep"
        args     = ["1000"]
        interval = "1s"
        timeout  = "2s"
      }

`
