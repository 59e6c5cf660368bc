package nomad

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lent is what the operator has for jobs, as an agent's file says it.
func lent(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a-secret-of-the-operator\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
    credential "corp" {
      file       = %[1]q
      hosts      = ["corp.example.internal"]
      headers    = ["Authorization"]
      namespaces = ["default"]
    }
    credential "other" {
      file       = %[1]q
      hosts      = ["other.example.internal"]
      headers    = ["X-Key"]
      namespaces = ["nobody"]
    }
    git_grant "github" {
      repos      = ["acme/*"]
      token_file = %[1]q
      namespaces = ["*"]
      push       = true
    }`, file)
}

// credentials: blocks with labels come through agent and client, secrets that
// Nomad rendered are found, and the client's state holds none.
func (c *cluster) credentials(t *testing.T) {
	c.CLI(t, "job", "run", "-detach", "-var", "image="+c.image, filepath.Join("testdata", "credentials.nomad.hcl"))
	t.Cleanup(func() { c.stopAll("credentials") })
	a := c.until(t, "credentials", "running", "failed")
	wants(t, "the settings", c.CLI(t, "alloc", "exec", a.ID, "wardyn", "explain"),
		"api.example.internal: x-api-key from secrets/model.key", "corp.example.internal: Authorization from the operator's corp", "put to a reviewer")
	c.CLI(t, "alloc", "exec", a.ID, "/bin/sh", "-c", "wget -q -O - http://new.example.internal/ || true")
	c.Eventually(t, 60*time.Second, "the question is an event", func() bool {
		return strings.Contains(events(c.alloc(t, "credentials")), "Approval waiting: first use of new.example.internal:80")
	})
	wants(t, "pending", c.CLI(t, "alloc", "exec", a.ID, "wardyn", "pending"), "new.example.internal:80")
	state := c.CLI(t, "alloc", "exec", a.ID, "wardyn", "status", "-json") + events(c.alloc(t, "credentials"))
	err := filepath.WalkDir(filepath.Join(c.Dir, "data"), func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(p, "/secrets/") {
			return nil // log pipes, and what goes while it is looked at
		}
		b, _ := os.ReadFile(p)
		state += string(b)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(state, "a-secret-of-the-operator") {
		t.Error("the client's state holds a secret")
	}
	c.CLI(t, "job", "stop", "-purge", "credentials")
}
