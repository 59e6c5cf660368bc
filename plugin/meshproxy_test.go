package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestK18MeshProxyIsRefused: a task that a client has prepared as a proxy of
// the service mesh does not start, whatever it may mount, and nothing is made;
// the same task without the mesh's file does.
func TestK18MeshProxyIsRefused(t *testing.T) {
	b := newBench(t, benchOptions{})
	tc := b.task("connect-proxy-api", args("true"))
	secrets := filepath.Join(tc.AllocDir, "connect-proxy-api", "secrets")
	if err := os.MkdirAll(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(secrets, meshBootstrap)
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.host.StartTask(b.ctx(), tc)
	if err == nil || host.IsRecoverable(err) || !strings.Contains(err.Error(), MeshProxyFault().String()) {
		t.Fatalf("a proxy of the mesh: %v", err)
	}
	b.nothingLeft()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.host.StartTask(b.ctx(), tc); err != nil {
		t.Fatal(err)
	}
	b.wait(tc.ID)
	b.destroy(tc.ID)
	b.nothingLeft()
}
