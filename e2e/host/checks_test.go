package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// TestCheckEndsWithItsTask: a script that was ended by the end of its task says
// nothing about it.
func TestCheckEndsWithItsTask(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.nomad.hcl")
	text := `
job "short" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        image       = "` + testenv.Image(t) + `"
        confinement = "CC1"
        command     = "/bin/sh"
        args        = ["-c", "until [ -e /alloc/data/asked ]; do sleep 0.1; done; sleep 0.3"]
      }
      service {
        check {
          name     = "last"
          type     = "script"
          command  = "/bin/sh"
          args     = ["-c", "touch /alloc/data/asked; sleep 600"]
          interval = "10m"
          timeout  = "10m"
        }
      }
    }
  }
}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, file)
	r.wants(t, "stderr", r.stderr, "t * Terminated: exit code 0")
	if r.code != 0 || strings.Contains(r.stderr, `Check "last"`) {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}
