package egress

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wardyn/nomad-driver-wardyn/internal/testenv"
)

// cloned holds a task's repo block to its word: the clone is on a branch of the
// session's own, which can be pushed as it stands, under the block's identity.
func (w *work) cloned(t *testing.T, s *gitServer) {
	branch := "wardyn/" + strings.ReplaceAll(w.session(t), ".", "-") + "/work"
	out := w.sh(t, "export HOME=/tmp; cd /workspace/web && git branch --show-current && date >>README && git commit -qam mine && git push -q origin HEAD && echo pushed; git log -1 --format='%an <%ae>'; cat .git/config")
	if !strings.Contains(out, branch+"\npushed\nA Gent <agent@example.com>\n") {
		t.Errorf("the clone: %s", out)
	}
	if !strings.Contains(s.git(t, "-C", "acme/web.git", "log", "-1", "--format=%an", branch), "A Gent") {
		t.Error("the push did not arrive")
	}
}

// cloneFails: a server that does not take the token ends the task before its
// command, by the code of a clone, and nothing is taken for a clone. What is in
// the workspace stays as it is.
func (r *rig) cloneFails(t *testing.T, class string, config map[string]any) {
	all := map[string]any{"idle": false, "command": "/bin/sh", "args": []any{"-c", "echo the command ran"}}
	for k, v := range config {
		all[k] = v
	}
	w := r.prepare(t, class, all)
	kept := filepath.Join(w.Dir().Local, "workspace", "kept")
	checkKept := testenv.Precious(t, kept)
	if err := w.Start(deadline(t)); err != nil {
		t.Fatal(err)
	}
	exit, err := w.Wait(deadline(t))
	if err != nil || exit.ExitCode != 121 || strings.Contains(w.out.String(), "the command ran") || !strings.Contains(w.out.String(), "[clone]") {
		t.Errorf("%+v, %v: %s", exit, err, w.out.String())
	}
	eventually(t, "the event", func() bool { return strings.Contains(r.told(w.ID()), "(exit code 121)") })
	checkKept()
	if _, err := os.Stat(filepath.Join(filepath.Dir(kept), "web", ".git")); err == nil {
		t.Error("half a clone is left")
	}
}
