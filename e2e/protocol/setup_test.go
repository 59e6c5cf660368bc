package protocol

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestSetup: a script's result is kept, once, and nothing of one that fails.
func TestSetup(t *testing.T) {
	r := newRig(t)
	t.Run("D-11 once for all", func(t *testing.T) { r.setupOnce(t) })
	t.Run("K23 no secret is in the image", func(t *testing.T) { r.setupSecrets(t) })
	t.Run("failures", func(t *testing.T) { r.setupFailures(t) })
	t.Run("stop", func(t *testing.T) { r.setupStopped(t) })
	t.Run("plugin ended", func(t *testing.T) { r.setupPluginEnds(t, r.restart) })
	t.Run("plugin killed", func(t *testing.T) { r.setupPluginEnds(t, r.killPlugin) })
	t.Run("not kept", func(t *testing.T) { r.setupPrivate(t) })
	t.Run("K24 gVisor", func(t *testing.T) { r.setupGVisor(t) })
}

func setup(script string, more ...string) func(*host.TaskSpec) {
	return with(map[string]any{"setup": block(append([]string{"script", script}, more...)...)})
}

// The file system of a setup is root's, whatever the task's user is.
const installs = "id -u; mkdir -p /opt/tool && echo v1 > /opt/tool/v && chown 1000 /opt/tool/v; echo done"

func (r *rig) setupOnce(t *testing.T) {
	script := installs + " # once"
	var all sync.WaitGroup
	tasks := make([]*work, 10)
	for i := range tasks {
		tasks[i] = r.prepare(t, "CC1", "cat /opt/tool/v; id -u", asUser("1000"), setup(script))
	}
	for _, w := range tasks {
		all.Go(func() {
			if err := w.Start(deadline(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	builds := 0
	for _, w := range tasks {
		w.exits(t, 0)
		out := w.out.String()
		if strings.HasPrefix(out, "[setup] 0\n[setup] done\n") {
			builds++
		}
		if !strings.HasSuffix(out, "v1\n1000\n") {
			t.Errorf("output %q, %q", out, w.err.String())
		}
	}
	if builds != 1 {
		t.Errorf("%d of %d ran the script", builds, len(tasks))
	}
	again := r.start(t, "CC1", "cat /opt/tool/v", setup(script))
	again.exits(t, 0)
	if again.out.String() != "v1\n" {
		t.Errorf("from the image: %q", again.out.String())
	}
	r.told(t, again.ID(), "was done before")
	if out, _ := r.kept(t, "images"); strings.Count(out, "rainier-env:default-") != 1 {
		t.Errorf("images: %s", out)
	}
	r.goesOnlyWithKept(t, "(setup default/")
}

func (r *rig) setupSecrets(t *testing.T) {
	w := r.start(t, "CC1", "echo \"[$TOKEN]\"", with(map[string]any{"setup": []any{map[string]any{
		"script": "test \"$TOKEN\" = planted-secret-four && echo got it", "env": map[string]any{"TOKEN": "planted-secret-four"},
	}}}), func(s *host.TaskSpec) { s.Env = map[string]string{"OTHER": "planted-secret-five"} })
	w.exits(t, 0)
	if w.out.String() != "[setup] got it\n[]\n" {
		t.Errorf("output %q", w.out.String())
	}
	ref := r.told(t, w.ID(), "The setup is done").Annotations["image"]
	lacks(t, "the saved image", r.saved(t, ref), "planted-secret-four", "planted-secret-five", "RAINIER_", "HTTP_PROXY", "wardyn-proxy")
}

func (r *rig) images(t *testing.T) string {
	t.Helper()
	eventually(t, "the installation is there", func() bool { // the plugin makes it when it is asked first
		_, err := os.Stat(filepath.Join(r.data, "instance"))
		return err == nil
	})
	out, err := r.kept(t, "images")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *rig) setupFailures(t *testing.T) {
	before := r.images(t)
	for _, c := range []struct{ script, timeout, says string }{
		{"echo trying; exit 9", "1m", "[setup] failed: exit code 9"},
		{"echo on; sleep 600", "1s", "[setup] failed: it took longer than 1s"},
		{"wget -q -O /x http://blocked.example/ || exit 4", "1m", "[setup] failed: exit code 4"},
	} {
		w := r.start(t, "CC1", "echo agent", setup(c.script, "timeout", c.timeout))
		w.exits(t, 120)
		if !w.err.has(c.says) || w.out.has("agent") {
			t.Errorf("%q: %q, %q", c.script, w.out.String(), w.err.String())
		}
		r.told(t, w.ID(), "The setup script failed (exit code 120)")
	}
	if now := r.images(t); now != before {
		t.Errorf("a failed setup is kept:\n%s", now)
	}
}

// building waits for a setup's own container.
func (r *rig) building(t *testing.T, w *work) string {
	t.Helper()
	var id string
	eventually(t, "the setup prints", func() bool { return w.out.has("[setup] waiting\n") })
	list, err := r.engine.ContainerList(deadline(t), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", "wardyn.alloc-id="+w.at.ID), filters.Arg("label", "wardyn.component=agent"))})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d containers, %v", len(list), err)
	}
	id = list[0].ID
	return id
}

func (r *rig) absent(t *testing.T, id string) bool {
	_, err := r.engine.ContainerInspect(deadline(t), id)
	return err != nil
}

func (r *rig) setupStopped(t *testing.T) {
	before := r.images(t)
	w := r.start(t, "CC1", "echo agent", setup("echo waiting; sleep 600"))
	id := r.building(t, w)
	if err := execError(t, w); err == nil || !strings.Contains(err.Error(), "the setup of task") {
		t.Errorf("exec during the setup: %v", err)
	}
	if _, out, _ := w.verb(t, "status"); !strings.Contains(out, "setup") {
		t.Errorf("status: %q", out)
	}
	if err := r.StopTask(deadline(t), w.ID(), limit, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	w.exits(t, 143)
	if !r.absent(t, id) || r.images(t) != before || w.out.has("agent") {
		t.Error("something of a stopped setup is left")
	}
	// A container that somebody else kills is a script that failed.
	w = r.start(t, "CC1", "echo agent", setup("echo waiting; sleep 601"))
	if err := r.engine.ContainerKill(deadline(t), r.building(t, w), "KILL"); err != nil {
		t.Fatal(err)
	}
	w.exits(t, 120)
	if r.images(t) != before {
		t.Error("a killed setup is kept")
	}
	r.setupNetworkCut(t)
}

// A setup's sidecar that dies is replaced, and the script goes on.
func (r *rig) setupNetworkCut(t *testing.T) {
	const ask = "ask() { wget -O - http://blocked.example/ 2>&1 | grep -q 403; }; "
	w := r.start(t, "CC1", "cat /made", setup(ask+"until ask; do sleep 0.1; done; echo waiting; "+
		"while ask; do sleep 0.05; done; until ask; do sleep 0.2; done; echo on > /made"))
	r.building(t, w)
	list, err := r.engine.ContainerList(deadline(t), container.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", "wardyn.alloc-id="+w.at.ID), filters.Arg("label", "wardyn.component=proxy"))})
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, c := range list {
		if err := r.engine.ContainerKill(deadline(t), c.ID, "KILL"); err != nil {
			t.Fatal(err)
		}
	}
	w.exits(t, 0)
	if !w.out.has("on\n") {
		t.Errorf("%q, %q", w.out.String(), w.err.String())
	}
	r.told(t, w.ID(), "Sidecar restarted")
}

// A setup does not survive its plugin: the task is lost and the next attempt
// begins again, with nothing of the last.
func (r *rig) setupPluginEnds(t *testing.T, end func(*testing.T)) {
	before := r.images(t)
	w := r.start(t, "CC1", "echo agent", setup("echo waiting; sleep 602"))
	id, h := r.building(t, w), w.stored(t)
	end(t)
	if err := r.RecoverTask(deadline(t), h); err == nil {
		t.Error("a task whose setup died is taken up")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := r.DestroyTask(ctx, w.ID(), true); err != nil {
		t.Errorf("destroy: %v", err)
	}
	w.abandoned = true
	if !r.absent(t, id) || r.images(t) != before {
		t.Error("something of the setup is left")
	}
}

// killPlugin ends the plugin by force and waits for the next.
func (r *rig) killPlugin(t *testing.T) {
	launches := r.Launches()
	if err := syscall.Kill(r.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin is back", func() bool { return r.Launches() > launches })
}

// What is one task's alone goes with it, also where another plugin lets it go.
func (r *rig) setupPrivate(t *testing.T) {
	before := r.images(t)
	w := r.start(t, "CC1", awaitGo+"cat /made", with(map[string]any{"setup": []any{map[string]any{"script": "echo mine > /made", "cache": false}}}))
	r.told(t, w.ID(), "Sandbox ")
	r.killPlugin(t)
	w.release(t)
	w.exits(t, 0)
	if !w.out.has("mine\n") {
		t.Errorf("output %q", w.out.String())
	}
	if err := r.DestroyTask(deadline(t), w.ID(), true); err != nil {
		t.Fatal(err)
	}
	if now := r.images(t); now != before {
		t.Errorf("kept all the same:\n%s", now)
	}
}

// setupGVisor: whether the runtime here keeps changes to itself or not, no task
// ever starts from an image that lacks them.
func (r *rig) setupGVisor(t *testing.T) {
	each(t, func(t *testing.T, class string) {
		if class != "CC2" {
			return
		}
		w := r.start(t, class, "cat /made", setup("echo inside > /made"))
		exit, err := w.Wait(deadline(t))
		switch {
		case err != nil:
			t.Fatal(err)
		case exit.ExitCode == 0 && !w.out.has("inside\n"):
			t.Errorf("it started without what the setup made: %q", w.out.String())
		case exit.ExitCode == 120:
			r.told(t, w.ID(), "--overlay2=none")
		case exit.ExitCode != 0:
			t.Errorf("%+v, %q", exit, w.err.String())
		}
	})
}
