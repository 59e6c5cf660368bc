package plugin

import (
	"slices"
	"testing"
)

// TestK32SecretsForTheTask: what the driver itself reads of a task's secrets
// folder needs no mount, at any depth; the rest is for the task.
func TestK32SecretsForTheTask(t *testing.T) {
	read := []source{{File: "api.key"}, {File: "git/token"}, {Credential: "shared"}}
	for name, want := range map[string]bool{"api.key": false, "git": false, "token": true, "nomad_token": true} {
		if got := slices.ContainsFunc([]string{name}, isForTask(read)); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
