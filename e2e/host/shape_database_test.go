package host

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// readiness tells who the check is, what it knows, and how many of the commands
// that never end there are at that moment.
const readiness = `echo $(id -un) $POSTGRES_USER $POSTGRES_PASSWORD $PATH hanging $(ps -o args | grep -c '[s]leep 1000'); test -e /alloc/data/ready || exit 2`

// hanging is a check that never ends by itself.
const hanging = `
      check {
        name     = "hangs"
        type     = "script"
        task     = "postgres"
        command  = "/bin/sh"
        args     = ["-c", "echo x >> /alloc/data/hung; exec sleep 1000"]
        interval = "1s"
        timeout  = "1s"
      }

`

// database: script checks run in the sandbox, as the task's user and with its
// environment; their code decides, one that hangs is cut off and leaves nothing,
// and one that fails for too long restarts the task.
func database(t *testing.T, class string) {
	image := testenv.ImageWith(t, testenv.ImageConfig{
		Cmd:        []string{"/bin/sh", "-c", `trap 'echo got INT; exit 0' INT; trap 'echo got TERM; exit 1' TERM; echo up as $(id -un); nc -ll -p 5432 -e /bin/true & while :; do sleep 0.2; done`},
		ExtraFiles: map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\npostgres:x:7777:7777::/:/bin/sh\n"},
	})
	allocs := t.TempDir()
	a := attend(t, "-alloc-dir", allocs, "-nomad-var", "nomad/jobs/shape-12:password=letmein", shape(t, "12-database-script-check", image,
		`image = "`+image+`"`, "image = "+strconv.Quote(image)+"\nconfinement = "+strconv.Quote(class),
		`"pg_isready"`, `"/bin/sh"`, `["-U", "app"]`, `["-c", `+strconv.Quote(readiness)+`]`,
		`"30s"`, `"1s"`, `"60s"`, `"5s"`,
		"      check {\n        name     = \"tcp\"", hanging+"      check {\n        name     = \"tcp\""))
	a.until(t, "up as postgres")
	a.until(t, `postgres * Check "ready": critical: postgres app letmein /usr/local/sbin:`)
	a.until(t, ` * Check "tcp": passing`)
	data := filepath.Join(allocated(t, allocs), "alloc", "data")
	ready, hung := filepath.Join(data, "ready"), filepath.Join(data, "hung")
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a.until(t, `postgres * Check "ready": passing: postgres app letmein`)
	a.until(t, `postgres * Check "hangs": critical: the command did not end within 1s and was killed`)
	a.Eventually(t, "the check that hangs was begun again and again", func() bool {
		text, _ := os.ReadFile(hung)
		return strings.Count(string(text), "\n") >= 4
	})
	before := len(a.String())
	if err := os.Remove(ready); err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`Check "ready": critical: postgres .* hanging (\d+)`)
	a.Eventually(t, "the check fails again", func() bool { return said.MatchString(a.String()[before:]) })
	if n, _ := strconv.Atoi(said.FindStringSubmatch(a.String()[before:])[1]); n > 2 { // the last one and what began it
		t.Errorf("%d commands of the check that hangs were left behind", n)
	}
	a.until(t, `postgres * Restart signaled: Check "ready" has failed for too long`)
	a.until(t, "got INT")
	a.until(t, "postgres * Restarting in 15s: attempt 1 of 2 within 30m0s")
	if code := a.stop(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, a)
	}
}

// allocated is the directory of the one allocation.
func allocated(t *testing.T, root string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}
