package protocol

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// TestK3Reaper: a client that never comes back for a task leaves nothing
// behind. What only carries the label is left alone, and so is a living task.
func TestK3Reaper(t *testing.T) {
	r := newRig(t)
	r.more = map[string]any{"reaper": []any{map[string]any{"grace": "5s", "period": "1s"}}}
	lost := r.start(t, "CC1", "exec sleep 1000")
	lost.abandoned = true
	stranger := r.stranger(t)
	r.Close()
	out, err := exec.Command(r.binary, "purge", "-plugin-config", r.optionsFile(t), "-dry-run").CombinedOutput()
	for _, line := range []string{"remove wardyn_agent_" + lost.run(t) + " (", "leave container " + stranger, "(the egress network)\n", "keeper.sock (the output keeper)\n"} {
		if err != nil || !strings.Contains(string(out), line) {
			t.Errorf("purge -dry-run lacks %q: %v\n%s", line, err, out)
		}
	}
	r.Plugin = r.launch(t, nil)
	living := r.start(t, "CC1", "exec sleep 1000")
	eventually(t, "the lost task's sandbox is gone", func() bool {
		return len(testenv.Leftovers(t, r.endpoint, "wardyn.run-id="+lost.run(t))) == 0
	})
	// What the node keeps of a run goes after what the engine has of it.
	eventually(t, "nothing of it is in the data dir", func() bool {
		left, err := filepath.Glob(filepath.Join(r.data, "*", "*"+lost.run(t)+"*"))
		return err == nil && len(left) == 0
	})
	if len(living.containers(t)) != 2 {
		t.Error("a living task lost its containers")
	}
	if _, err := r.engine.ContainerInspect(deadline(t), stranger); err != nil {
		t.Errorf("the stranger: %v", err)
	}
	eventually(t, "the stranger is counted", func() bool { return r.NodeAttributes()["driver.wardyn.leftovers"] == "1" })
}

// stranger is a container of somebody's that carries this installation's label.
func (r *rig) stranger(t *testing.T) string {
	t.Helper()
	id, err := os.ReadFile(filepath.Join(r.data, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	name := "stranger-" + strings.TrimSpace(string(id))
	c, err := r.engine.ContainerCreate(deadline(t), &container.Config{
		Image: r.image, Labels: map[string]string{"wardyn.instance": strings.TrimSpace(string(id)), "wardyn.component": "agent"},
	}, nil, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		if out, err := exec.Command("docker", "-H", r.endpoint, "rm", "-f", c.ID).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return name
}
