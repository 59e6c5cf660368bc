package nomad

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// besideTime names a variable with how long, "12m", the docker driver's clean-up
// is watched, then at its own intervals. Without it they are the shortest that
// the driver takes, and one pass over everything is waited for.
const besideTime = "WARDYN_TEST_BESIDE"

// eagerCleanUp lets the docker driver clean up as often as it can.
const eagerCleanUp = `
    gc {
      image       = true
      image_delay = "1s"
      container   = true
      dangling_containers {
        enabled        = true
        period         = "2s"
        creation_grace = "1m"
      }
    }`

// TestDockerDriverBeside: Nomad's docker driver on the same engine removes images
// that it used, and running containers that it takes for leftovers of Nomad's by
// their labels, or by their mounts and names. It touches nothing of ours. That it
// had the chance is shown by what it does remove: an image, and containers that
// are younger than ours.
func TestDockerDriverBeside(t *testing.T) {
	c, passing := startBeside(t)
	begun := time.Now()
	c.own(t, "beside", []string{"passing=" + passing})
	var ours []string
	c.Eventually(t, testenv.Patience, "all tasks run", func() bool {
		ours = c.belongings(t)
		return len(c.containers(t, "agent")) == 2 && len(c.containers(t, "proxy")) == 2 && dockerRuns(t, c.dockerTask(t))
	})
	theirs := c.dockerTask(t)
	decoys := []string{
		decoy(t, c.image, "decoy", "--label", "com.hashicorp.nomad.alloc_id="+uuid.NewString()),
		decoy(t, c.image, "decoy-"+uuid.NewString(), "-v", "/tmp:/alloc:ro", "-v", "/tmp:/local:ro", "-v", "/tmp:/secrets:ro"),
	}
	for _, id := range decoys {
		c.Eventually(t, 15*time.Minute, "the docker driver has removed "+id, func() bool { return !dockerRuns(t, id) })
	}
	c.Eventually(t, 10*time.Minute, "the docker driver has removed the image it used once", func() bool {
		return len(testenv.Images(t, testenv.Engine(t), passing)) == 0
	})
	time.Sleep(time.Until(begun.Add(watched(t))))

	if now := c.belongings(t); !slices.Equal(now, ours) {
		t.Errorf("there were\n%s\nand there are\n%s", strings.Join(ours, "\n"), strings.Join(now, "\n"))
	}
	if !dockerRuns(t, theirs) {
		t.Error("the docker task is gone, too: the clean-up takes what is tracked")
	}
	for _, task := range []string{"cc1", "cc2"} {
		a := c.groupAlloc(t, "ours")
		if out := c.CLI(t, "alloc", "exec", "-i=false", "-t=false", "-task", task, a, "/bin/echo", "alive"); out != "alive\n" {
			t.Errorf("task %s: %q", task, out)
		}
	}
}

// watched is how long the clean-up is to be watched at least.
func watched(t *testing.T) time.Duration {
	text := os.Getenv(besideTime)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", besideTime, err)
	}
	return d
}

// startBeside starts an agent with both drivers on an engine of the test's own:
// the clean-up would take other people's containers from the machine's. The
// second value is the name of an image that nothing else uses.
func startBeside(t *testing.T) (*cluster, string) {
	bin := testenv.NomadBinaries(t)[0]
	runtimes := map[string]testenv.Runtime{}
	info, err := testenv.Client(t, testenv.Engine(t)).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have, ok := info.Runtimes["runsc"]
	if !ok {
		t.Skip("runsc is not registered with the engine: one of the tasks is to be at CC2")
	}
	runtimes["runsc"] = testenv.Runtime{Path: have.Path, Args: have.Args}
	endpoint := testenv.StartEngine(t, testenv.EngineOptions{Runtimes: runtimes}).Endpoint
	data := filepath.Join(t.TempDir(), "wardyn")
	config := fmt.Sprintf("data_dir = %q\nendpoint = %q\nallow_secrets_dir = true\n", data, endpoint)
	plugin := testenv.Driver(t)
	image, passing := testenv.Image(t), testenv.ImageWith(t, testenv.ImageConfig{Cmd: []string{"/bin/true"}})
	t.Cleanup(func() { purge(t, plugin, config) })
	gc := eagerCleanUp
	if os.Getenv(besideTime) != "" {
		gc = ""
	}
	docker := fmt.Sprintf("plugin \"docker\" {\n  config {\n    endpoint = %q%s\n  }\n}\n", endpoint, gc)
	n := testenv.StartNomad(t, bin, plugin, config, docker)
	return &cluster{Nomad: n, version: testenv.NomadVersion(t, bin), image: image, data: data, options: config}, passing
}

// belongings are all containers, networks and volumes of this installation,
// containers with when they began to run.
func (c *cluster) belongings(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, kind := range []string{"ps -a", "network ls", "volume ls"} {
		args := append(strings.Fields(kind), "-q", "--filter", "label=wardyn.instance="+c.instance(t))
		ids, err := exec.Command("docker", args...).Output()
		if err != nil {
			t.Fatalf("docker %s: %v", strings.Join(args, " "), err)
		}
		for id := range strings.FieldsSeq(string(ids)) {
			format := "{{.Name}}"
			if kind == "ps -a" {
				format = "{{.Id}} {{.Name}} {{.State.Status}} {{.State.StartedAt}}"
			}
			text, err := exec.Command("docker", "inspect", "--format", format, id).Output()
			if err != nil {
				return nil // it went meanwhile
			}
			out = append(out, strings.TrimSpace(string(text)))
		}
	}
	slices.Sort(out)
	return out
}

// dockerTask is the container of the docker driver's own task.
func (c *cluster) dockerTask(t *testing.T) string {
	t.Helper()
	return "docker-" + c.groupAlloc(t, "theirs")
}

// groupAlloc is the allocation of a group of the job; "" when there is none yet.
func (c *cluster) groupAlloc(t *testing.T, group string) string {
	t.Helper()
	out, _ := c.Command(t, "job", "allocs", "-t", "{{range .}}{{if eq .TaskGroup \""+group+"\"}}{{.ID}}{{end}}{{end}}", "beside").Output()
	return strings.TrimSpace(string(out))
}

// decoy runs a container that the docker driver would take for a leftover.
func decoy(t *testing.T, image, name string, flags ...string) string {
	t.Helper()
	args := slices.Concat([]string{"run", "-d", "--network", "none", "--name", name}, flags, []string{image, "/bin/sleep", "100000"})
	if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil {
		t.Fatalf("docker run %s: %v\n%s", name, err, out)
	}
	return name
}

// dockerRuns reports whether a container is there and runs.
func dockerRuns(t *testing.T, name string) bool {
	t.Helper()
	out, err := exec.Command("docker", "ps", "-q", "--filter", "name=^/?"+name+"$", "--filter", "status=running").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)) != ""
}
