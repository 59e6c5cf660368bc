package egress

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
	"github.com/wardyn/nomad-driver-wardyn/plugin/host"
)

// TestK41Setup: a setup reaches what its task reaches, by the same rules: hosts that
// the operator has opened are opened to it as well, under a CA that its image does
// not keep, and learn mode holds in it, in an image of its own.
func TestK41Setup(t *testing.T) {
	r := newRigWith(t, map[string]string{
		"bin/update-ca-certificates":          "#!/bin/sh\necho ran >> /updated\n",
		"usr/local/share/ca-certificates/one": "",
	}, map[string]any{"intercept": []any{"api.example.internal"}, "allow_learn": true})
	const ask = "/bin/client https://api.example.internal/v1 > /made 2>&1; true"
	learnt := r.withSetup(t, map[string]any{"learn": true}, ask)
	if out := learnt.sh(t, "cat /made"); !strings.Contains(out, "200 hello") {
		t.Errorf("in learn mode: %s", out)
	}
	refused := r.withSetup(t, map[string]any{}, ask)
	if out := refused.sh(t, "cat /made"); out == "" || strings.Contains(out, "200 hello") {
		t.Errorf("out of learn mode: %s", out)
	}
	w := r.withSetup(t, map[string]any{"allow": []any{"api.example.internal"}}, ask)
	if out := w.sh(t, "cat /made"); !strings.Contains(out, "200 hello") {
		t.Errorf("an opened host: %s", out)
	}
	decisions := filepath.Join(w.Dir().Dir, "wardyn", "setup", "decisions.jsonl")
	eventually(t, "the setup's request is recorded as one that was opened", func() bool {
		b, _ := os.ReadFile(decisions) // in the sidecar's own time
		return strings.Contains(string(b), `"mitm":true`) && strings.Contains(string(b), `"path":"/v1"`)
	})
	// The task's own start has put its CA there, and no other has.
	if out := w.sh(t, "cat /updated"); out != "ran\n" {
		t.Errorf("the system's store was brought up to date: %q", out)
	}
}

// withSetup starts a task whose setup runs a script, and returns when the setup is
// through.
func (r *rig) withSetup(t *testing.T, egress map[string]any, script string) *work {
	t.Helper()
	w := r.start(t, "CC1", map[string]any{"egress": []any{egress}, "setup": []any{map[string]any{"script": script}}})
	eventually(t, "its sandbox is there", func() bool {
		var out testenv.Buffer
		_, err := w.Exec(deadline(t), host.ExecRequest{Command: []string{"true"}, Stdout: &out, Stderr: &out})
		return err == nil
	})
	return w
}
