package protocol

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// The three that are planted: the value of a setup's variable, one of the
// task's, and a secret that the sidecar injects. The task's own is in its own
// container, by the job's wish, and nowhere else.
const (
	plantedSetup  = "planted-secret-of-the-setup"
	plantedTask   = "planted-secret-of-the-task"
	plantedInject = "planted-secret-of-the-sidecar"
)

// I3, K23, D39, D42: of three planted secrets nothing is in the images that a
// setup and a snapshot make, as anyone can save them, in what is told of volumes
// and containers, or in the driver's own words.
func TestI3NoSecretIsKept(t *testing.T) {
	r := newRig(t)
	w := r.prepare(t, "CC1", awaitGo, with(map[string]any{
		"setup": []any{map[string]any{
			"script": `test "$TOKEN" = ` + plantedSetup[:14] + `"` + plantedSetup[14:] + `" && echo set > /made`,
			"env":    map[string]any{"TOKEN": plantedSetup},
		}},
		"workspace": block("volume", "secrets-ws"), "home": block("volume", "secrets-home", "path", "/home/somebody"),
		"egress": []any{map[string]any{"allow": []any{"api.example.internal"}}},
		"inject": []any{map[string]any{"api": block("host", "api.example.internal", "header", "x-api-key", "secret_file", "secrets/key")}},
	}), func(s *host.TaskSpec) { s.Env = map[string]string{"MINE": plantedTask} })
	if err := os.WriteFile(filepath.Join(w.Dir().Secrets, "key"), []byte(plantedInject), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	setup := r.told(t, w.ID(), "The setup is done").Annotations["image"]
	eventually(t, "the task runs", func() bool { return execError(t, w) == nil })
	if exit, _, errs := w.sh(t, "echo work > /workspace/file", nil); exit.ExitCode != 0 {
		t.Fatal(errs)
	}
	if exit, _, errs := w.verb(t, "snapshot", "secrets"); exit.ExitCode != 0 {
		t.Fatal(errs)
	}
	for _, ref := range []string{setup, "wardyn-snap/default/secrets"} {
		lacks(t, ref, r.saved(t, ref), plantedSetup, plantedTask, plantedInject)
	}
	volumes, err := r.engine.VolumeList(deadline(t), volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "wardyn.instance"))})
	if err != nil || len(volumes.Volumes) < 2 {
		t.Fatal(volumes, err)
	}
	lacks(t, "what is told of volumes", asJSON(t, volumes.Volumes), plantedSetup, plantedTask, plantedInject)
	for component, c := range w.containers(t) {
		told, err := r.engine.ContainerInspect(deadline(t), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		if component == "agent" {
			if text := asJSON(t, told); !strings.Contains(text, plantedTask) {
				t.Error("the task's own variable is not in its container, so this shows nothing")
			}
			lacks(t, component, asJSON(t, told), plantedSetup, plantedInject)
			continue
		}
		lacks(t, component, asJSON(t, told), plantedSetup, plantedTask, plantedInject)
	}
	lacks(t, "the driver's state", string(w.Handle().DriverState), plantedSetup, plantedTask, plantedInject)
	lacks(t, "the driver's log", r.log.tail(1<<20), plantedSetup, plantedTask, plantedInject)
	w.release(t)
	w.exits(t, 0)
}

// saved is an image as anyone can save it.
func (r *rig) saved(t *testing.T, ref string) string {
	t.Helper()
	archive, err := r.engine.ImageSave(deadline(t), []string{ref})
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	all, err := io.ReadAll(archive)
	if err != nil || !strings.Contains(string(all), "manifest.json") {
		t.Fatal(len(all), err)
	}
	return string(all)
}

func lacks(t *testing.T, what, text string, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%s: %q is in it", what, s)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
