package protocol

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// TestD45PrepullFromARegistry: the operator's images are fetched from a real
// registry, with the operator's credentials, when the driver starts: one that
// is not there keeps none of the others away. A task then starts without a pull.
func TestD45PrepullFromARegistry(t *testing.T) {
	registry := testenv.Registry(t, true)
	ref := testenv.Push(t, registry)
	config := filepath.Join(t.TempDir(), "config.json")
	login := fmt.Sprintf(`{"auths":{%q:{"username":%q,"password":%q}}}`, registry, testenv.RegistryUser, testenv.RegistryPassword)
	if err := os.WriteFile(config, []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := registry + "/acme/absent:1"
	r := newRigWith(t, map[string]any{
		"auth":   block("config", config),
		"images": []any{map[string]any{"prepull": []any{absent, ref}}},
	})
	eventually(t, "the image is on the node", func() bool {
		_, err := r.engine.ImageInspect(deadline(t), ref)
		if err != nil && !errdefs.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	if log := r.log.String(); !strings.Contains(log, "an image is not fetched ahead of time") || !strings.Contains(log, absent) || strings.Contains(log, testenv.RegistryPassword) {
		t.Errorf("the driver's log:\n%s", log)
	}
	w := r.start(t, "CC1", "echo from the image", with(map[string]any{"image": ref}))
	w.exits(t, 0)
	if e := r.events.find(w.ID(), "Pulling image"); e != nil || !w.out.has("from the image\n") {
		t.Errorf("event %+v, output %q, %q", e, w.out.String(), w.err.String())
	}
}
