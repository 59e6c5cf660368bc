package nomad

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// pool is this package's own egress pool, so that the stand-in upstream's
// address is known beforehand and collides with no other test's.
const pool = "10.214.244.0/22"

// cluster is one agent and what the tests need around it.
type cluster struct {
	*testenv.Nomad
	version string // Nomad's
	image   string
	data    string // the driver's data dir
	options string // the driver's options
	consul  *consul
	// shared is a folder of the host that the operator lets jobs mount.
	shared string
	// state is the client's host volume shape-state.
	state string
}

func start(t *testing.T, bin string) *cluster {
	endpoint := testenv.Engine(t)
	plugin := testenv.Driver(t)
	up := testenv.Upstream(t, pool)
	image := testenv.Image(t)
	pause := testenv.ImageWith(t, testenv.ImageConfig{Cmd: []string{"/bin/sleep", "100000"}})
	data, shared, state := filepath.Join(t.TempDir(), "wardyn"), t.TempDir(), t.TempDir()
	config := `
    data_dir           = "` + data + `"
    endpoint           = "` + endpoint + `"
    egress_subnet_pool = "` + pool + `"
    private_hosts {
      "artifacts.example.internal" = ["` + up.Addr().String() + `"]
    }
    allow_secrets_dir = true
    volumes {
      paths = ["` + shared + `"]
    }` + lent(t)
	t.Cleanup(func() { purge(t, plugin, config) })
	registry := startConsul(t)
	n := testenv.StartNomad(t, bin, plugin, config, neighbour(pause), fmt.Sprintf(shapesClient, state), registry.config())
	return &cluster{Nomad: n, version: testenv.NomadVersion(t, bin), image: image, data: data, options: config, consul: registry, shared: shared, state: state}
}

// purge takes the installation off the machine, after its agent has ended.
func purge(t *testing.T, plugin, config string) {
	file := filepath.Join(t.TempDir(), "purge.hcl")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(plugin, "purge", "-plugin-config", file, "-yes").CombinedOutput(); err != nil {
		t.Errorf("purge: %v\n%s", err, out)
	}
}

func (c *cluster) run(t *testing.T, file string, vars ...string) {
	t.Helper()
	args := []string{"job", "run", "-detach", "-var", "image=" + c.image}
	for _, v := range vars {
		args = append(args, "-var", v)
	}
	c.CLI(t, append(args, filepath.Join(testenv.Root(t), "jobs", file))...)
	// What a failed test leaves would be the next one's failure.
	t.Cleanup(func() { c.stopAll(strings.TrimSuffix(file, ".nomad.hcl")) })
}

// older reports whether the agent's version is below another, "1.7".
func (c *cluster) older(t *testing.T, than string) bool {
	t.Helper()
	var mine, theirs [2]int
	for text, v := range map[string]*[2]int{c.version: &mine, than: &theirs} {
		if _, err := fmt.Sscanf(text, "%d.%d", &v[0], &v[1]); err != nil {
			t.Fatalf("version %q: %v", text, err)
		}
	}
	return mine[0] < theirs[0] || mine[0] == theirs[0] && mine[1] < theirs[1]
}

type alloc struct {
	ID, ClientStatus string
	TaskStates       map[string]struct {
		State  string
		Failed bool
		Events []struct {
			Type, DisplayMessage string
			Details              map[string]string
		}
	}
}

// alloc is the newest allocation of a job.
func (c *cluster) alloc(t *testing.T, job string) alloc {
	t.Helper()
	var out alloc
	c.Eventually(t, 60*time.Second, "job "+job+" has an allocation", func() bool {
		var all []struct {
			ID         string
			CreateTime int64
		}
		s, err := c.Command(t, "job", "allocs", "-json", job).Output()
		if err != nil || json.Unmarshal(s, &all) != nil || len(all) == 0 {
			return false
		}
		newest := all[0]
		for _, a := range all {
			if a.CreateTime > newest.CreateTime {
				newest = a
			}
		}
		s, err = c.Command(t, "alloc", "status", "-json", newest.ID).Output()
		return err == nil && json.Unmarshal(s, &out) == nil
	})
	return out
}

// until waits for a client status of a job's newest allocation.
func (c *cluster) until(t *testing.T, job string, status ...string) alloc {
	t.Helper()
	var a alloc
	defer func() {
		if t.Failed() {
			t.Logf("%s: %s\n%s", job, a.ClientStatus, events(a))
		}
	}()
	c.Eventually(t, 90*time.Second, job+" is "+strings.Join(status, " or "), func() bool {
		a = c.alloc(t, job)
		for _, s := range status {
			if a.ClientStatus == s {
				return true
			}
		}
		return false
	})
	return a
}

// running waits until a job runs.
func (c *cluster) running(t *testing.T, job string) alloc {
	t.Helper()
	a := c.until(t, job, "running", "failed", "complete")
	if a.ClientStatus != "running" {
		t.Fatalf("%s is %s\n%s", job, a.ClientStatus, events(a))
	}
	return a
}

func (c *cluster) logs(t *testing.T, a alloc, flags ...string) string {
	t.Helper()
	return c.CLI(t, append(append([]string{"alloc", "logs"}, flags...), a.ID)...)
}

func events(a alloc) string {
	var b strings.Builder
	for task, s := range a.TaskStates {
		for _, e := range s.Events {
			b.WriteString(task + " * " + e.Type + ": " + e.DisplayMessage + "\n")
		}
	}
	return b.String()
}

func wants(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}
